"""The decoder in the codec's config.json. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import head_problems, size_problems
from ttsfamilies.base.codec.windowed import causal_frames


@dataclass(frozen=True)
class DecoderSizes:
    """Sizes of the decoder, by their published names."""

    codebook_dim: int
    codebook_size: int
    num_quantizers: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    rms_norm_eps: float
    rope_theta: float
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    attention_bias: bool = False

    @property
    def frame_samples(self) -> int:
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def context_frames(self) -> int:
        """So many frames back the decoder looks: beyond, a stream's past changes no sample.

        Each layer looks one window back, the first convolution two frames; those behind the
        transformer reach back less than one window's frame each.
        """
        tails = causal_frames(self.upsampling_ratios, self.upsample_rates)
        return self.num_hidden_layers * (self.sliding_window - 1) + 2 + tails


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
    sizes = config.decoder_config
    heads = head_problems(sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim)
    for wrong in (*size_problems(config), *size_problems(sizes), *heads, *_halving(sizes)):
        raise CheckpointError(f"{path}: decoder_config: {wrong}")
    if config.decoder_config.frame_samples != config.decode_upsample_rate:
        raise CheckpointError(f"{path}: the upsampling rates do not give decode_upsample_rate")
    return config


def _halving(sizes: DecoderSizes) -> list[str]:
    """Widths that are divided by two where they cannot be."""
    found = []
    if sizes.codebook_dim % 2:
        found.append(f"codebook_dim {sizes.codebook_dim} is odd")
    if sizes.decoder_dim % (1 << len(sizes.upsample_rates)):
        found.append(f"decoder_dim {sizes.decoder_dim} cannot be halved at every rate")
    return found
