"""A Fish Audio S2 folder: sizes of its transformers and of its codec. No torch.

Names of tensors are the published ones; the codec's are those of `codec.pth`, which is converted
to `codec.safetensors`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import head_problems, size_problems

CODEC: Final = "codec"
"""What the codec's files are called, up to their ending."""


@dataclass(frozen=True)
class FishCodecSizes:
    """The codec's, by our names, as published; config.json says nothing of them, but it may, under
    `codec_config`.

    latent: channels between its parts. inner: of a codebook. decoder: channels behind its first
    convolution. ratios: up from frames to the decoder's steps. rates: up from there to samples.
    """

    sample_rate: int = 44_100
    latent: int = 1024
    inner: int = 8
    semantic_codes: int = 4096
    codes: int = 1024
    residuals: int = 9
    layers: int = 8
    heads: int = 16
    head_dim: int = 64
    hidden: int = 3072
    window: int = 128
    eps: float = 1e-5
    theta: float = 10_000.0
    decoder: int = 1536
    ratios: tuple[int, ...] = (2, 2)
    rates: tuple[int, ...] = (8, 8, 4, 2)

    @property
    def codebooks(self) -> int:
        return 1 + self.residuals

    @property
    def frame_samples(self) -> int:
        return prod(self.ratios) * prod(self.rates)

    def problems(self) -> list[str]:
        """What no such codec can have."""
        found = [*size_problems(self), *head_problems(self.heads, self.heads, self.head_dim)]
        if self.decoder % (1 << len(self.rates)):
            found.append(f"decoder {self.decoder} cannot be halved at every rate")
        return found


@dataclass(frozen=True)
class _File:
    codec_config: FishCodecSizes = field(default_factory=FishCodecSizes)


def load_sizes(folder: Path) -> FishCodecSizes:
    """Read and check what a folder says of its codec; raises CheckpointError."""
    path = folder / "config.json"
    sizes = read_json(path, _File).codec_config
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: codec_config: {wrong}")
    return sizes
