"""The decoder in a SNAC codec's config.json. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json

# Codes of a frame by level, as Orpheus orders them.
SLOTS: Final = ((0,), (1, 4), (2, 3, 5, 6))


@dataclass(frozen=True)
class SnacConfig:
    """config.json, as far as the decoder goes."""

    sampling_rate: int
    encoder_dim: int
    encoder_rates: tuple[int, ...]
    decoder_dim: int
    decoder_rates: tuple[int, ...]
    codebook_size: int
    codebook_dim: int
    vq_strides: tuple[int, ...]
    attn_window_size: int | None = None
    latent_dim: int | None = None
    noise: bool = True
    depthwise: bool = True

    @property
    def latent(self) -> int:
        return self.latent_dim or self.encoder_dim * 2 ** len(self.encoder_rates)

    @property
    def frame_samples(self) -> int:
        return self.vq_strides[0] * prod(self.decoder_rates)


def load_config(folder: Path) -> SnacConfig:
    """Read and check a codec's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, SnacConfig)
    if config.vq_strides != (4, 2, 1) or not config.depthwise:
        raise CheckpointError(f"{path}: only three levels at 1, 2 and 4 times the frame rate")
    if config.attn_window_size is not None or any(rate % 2 for rate in config.decoder_rates):
        raise CheckpointError(f"{path}: attention and odd strides are not served")
    return config
