"""The decoder in the codec's config.json. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import ClassVar

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import size_problems
from ttsfamilies.base.codec.windowed import causal_frames
from ttsfamilies.base.lm.llama import StackSizes


@dataclass(frozen=True, kw_only=True)
class WaveSizes(StackSizes):
    """A transformer over frames, and the convolutions behind it, by their published names."""

    codebook_size: int
    num_quantizers: int
    sliding_window: int
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    front_frames: ClassVar[int]

    @property
    def frame_samples(self) -> int:
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def context_frames(self) -> int:
        """So many frames back the decoder looks: beyond, a stream's past changes no sample.

        Each layer looks one window back, what is in front of the first `front_frames`; the
        convolutions behind the transformer reach back less than one window's frame each.
        """
        tails = causal_frames(self.upsampling_ratios, self.upsample_rates)
        return self.num_hidden_layers * (self.sliding_window - 1) + self.front_frames + tails

    def problems(self) -> list[str]:
        found = super().problems()
        if self.decoder_dim % (1 << len(self.upsample_rates)):
            found.append(f"decoder_dim {self.decoder_dim} cannot be halved at every rate")
        return found


@dataclass(frozen=True, kw_only=True)
class DecoderSizes(WaveSizes):
    """Sizes of the decoder."""

    codebook_dim: int
    latent_dim: int
    head_dim: int
    rope_theta: float
    front_frames: ClassVar[int] = 2

    def problems(self) -> list[str]:
        odd = [f"codebook_dim {self.codebook_dim} is odd"] if self.codebook_dim % 2 else []
        return [*super().problems(), *odd]


@dataclass(frozen=True)
class CodecConfig:
    """config.json of the codec's folder, as far as the decoder goes."""

    decoder_config: DecoderSizes
    output_sample_rate: int
    decode_upsample_rate: int
    model_type: str


def load_config(folder: Path) -> CodecConfig:
    """Read and check the config of a codec's own folder; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, CodecConfig)
    if config.model_type != "qwen3_tts_tokenizer_12hz":
        raise CheckpointError(f"{path}: model_type {config.model_type!r} is not served")
    for wrong in (*size_problems(config), *config.decoder_config.problems()):
        raise CheckpointError(f"{path}: decoder_config: {wrong}")
    if config.decoder_config.frame_samples != config.decode_upsample_rate:
        raise CheckpointError(f"{path}: the upsampling rates do not give decode_upsample_rate")
    return config
