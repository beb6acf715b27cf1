"""The codec in a Qwen3-Omni checkpoint's config.json. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import head_problems, size_problems
from ttsfamilies.base.codec.receptive_field import causal_frames

SAMPLE_RATE: Final = 24_000


@dataclass(frozen=True)
class WaveformSizes:
    """code2wav_config."""

    codebook_size: int
    num_quantizers: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    sliding_window: int
    rms_norm_eps: float
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    attention_bias: bool = False
    head_dim: int | None = None
    rope_theta: float | None = None

    @property
    def theta(self) -> float:
        return float(self.rope_theta or 0.0)

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def frame_samples(self) -> int:
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def lag_samples(self) -> int:
        """Each large transposed convolution waits for one input more, and gives nothing for it."""
        lag = 0
        for rate in self.upsample_rates:
            lag = (lag + 1) * rate
        return lag

    @property
    def context_frames(self) -> int:
        """See DecoderSizes: so many frames back the decoder looks."""
        tails = causal_frames(self.upsampling_ratios, self.upsample_rates)
        return self.num_hidden_layers * (self.sliding_window - 1) + 1 + tails


@dataclass(frozen=True)
class CheckpointConfig:
    """config.json, as far as the codec goes."""

    model_type: str
    code2wav_config: WaveformSizes
    enable_audio_output: bool = True


def load_config(folder: Path) -> WaveformSizes:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, CheckpointConfig)
    c = config.code2wav_config
    found = [*size_problems(c), *head_problems(c.num_attention_heads, c.num_key_value_heads, 2)]
    if not config.enable_audio_output:
        found.append("enable_audio_output is false: this checkpoint has no codec")
    if c.theta <= 0:
        found.append("rope_theta is missing")
    if c.head_size % 2:
        found.append(f"heads of {c.head_size} channels cannot be rotated")
    if c.decoder_dim % (1 << len(c.upsample_rates)):
        found.append(f"decoder_dim {c.decoder_dim} cannot be halved at every rate")
    for wrong in found:
        raise CheckpointError(f"{path}: code2wav_config: {wrong}")
    return c
