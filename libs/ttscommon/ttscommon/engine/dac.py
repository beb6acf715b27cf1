"""Sizes of DAC (Kumar et al., 2023), as transformers writes them. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import size_problems


@dataclass(frozen=True)
class DacSizes:
    """config.json; defaults are DacConfig's, which the published codec of 44.1 kHz states anew."""

    encoder_hidden_size: int = 64
    downsampling_ratios: tuple[int, ...] = (2, 4, 8, 8)
    decoder_hidden_size: int = 1536
    upsampling_ratios: tuple[int, ...] = (8, 8, 4, 2)
    n_codebooks: int = 9
    codebook_size: int = 1024
    codebook_dim: int = 8
    sampling_rate: int = 16_000

    @property
    def latent(self) -> int:
        """Channels between encoder, quantizer and decoder."""
        return self.encoder_hidden_size << len(self.downsampling_ratios)

    @property
    def frame_samples(self) -> int:
        return prod(self.upsampling_ratios)

    def problems(self) -> list[str]:
        """What no DAC can have, and kinds of it that are not served."""
        found = size_problems(self)
        if prod(self.downsampling_ratios) != self.frame_samples:
            found.append("encoder and decoder disagree on a frame's samples")
        if any(ratio % 2 for ratio in (*self.upsampling_ratios, *self.downsampling_ratios)):
            found.append("odd strides, whose frames overlap by half a step, are not served")
        if self.decoder_hidden_size % 2 ** len(self.upsampling_ratios):
            found.append(
                f"decoder_hidden_size {self.decoder_hidden_size} cannot be halved so often"
            )
        return found


def load_sizes(folder: Path) -> DacSizes:
    """Read and check a codec's config.json; raises CheckpointError."""
    path = folder / "config.json"
    sizes = read_json(path, DacSizes)
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: {wrong}")
    return sizes
