"""DAC's decoder (Kumar et al., 2023): latents to samples, in steps that widen time."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ttscommon.engine.nn.snake import (
    DILATIONS,
    Snake,
    part_sources,
    unit_sources,
    units,
    wide,
)
from ttscommon.engine.nn.weights import Source


def upsampling(inputs: int, outputs: int, rate: int) -> nn.ConvTranspose1d:
    """`rate` steps for each; an odd rate has its last step from one side alone."""
    return nn.ConvTranspose1d(
        inputs, outputs, 2 * rate, rate, padding=(rate + 1) // 2, output_padding=rate % 2
    )


def widths(channels: int, rates: Sequence[int]) -> list[int]:
    """Channels before and behind each block."""
    return [channels // 2**i for i in range(len(rates) + 1)]


class Level(nn.Module):
    """A codebook of narrow entries, and their way to the decoder's channels."""

    def __init__(self, size: int, inner: int, latent: int) -> None:
        super().__init__()
        self.codebook = nn.Embedding(size, inner)
        self.out_proj = nn.Conv1d(inner, latent, 1)

    def forward(self, codes: Tensor) -> Tensor:
        """[1, steps] int64 -> [1, latent, steps]."""
        found: Tensor = self.out_proj(self.codebook(codes).transpose(1, 2))
        return found


class WaveDecoder(nn.Module):
    """bounded: samples are a tangent's, within -1..1."""

    def __init__(
        self, latent: int, channels: int, rates: Sequence[int], *, bounded: bool = True
    ) -> None:
        super().__init__()
        sizes = widths(channels, rates)
        blocks = [
            nn.Sequential(
                Snake(sizes[i]), upsampling(sizes[i], sizes[i + 1], rate), *units(sizes[i + 1])
            )
            for i, rate in enumerate(rates)
        ]
        self.model = nn.Sequential(
            wide(latent, channels), *blocks, Snake(sizes[-1]), wide(sizes[-1], 1)
        )
        self.bounded = bounded

    def forward(self, x: Tensor) -> Tensor:
        """[1, latent, frames] -> [frames * samples of a frame]; silence surrounds them."""
        found: Tensor = self.model(x)[0, 0]
        return found.tanh() if self.bounded else found


def decoder_sources(rates: Sequence[int], ours: str, theirs: str) -> dict[str, Source]:
    """A `WaveDecoder` by the names that transformers gives; what both begin with, dot included."""
    found = part_sources(f"{ours}model.0", f"{theirs}conv1")
    for i in range(len(rates)):
        mine, other = f"{ours}model.{1 + i}.", f"{theirs}block.{i}."
        found |= part_sources(f"{mine}0", f"{other}snake1")
        found |= part_sources(f"{mine}1", f"{other}conv_t1")
        for unit in range(len(DILATIONS)):
            found |= unit_sources(f"{mine}{2 + unit}.", f"{other}res_unit{unit + 1}.")
    found |= part_sources(f"{ours}model.{1 + len(rates)}", f"{theirs}snake1")
    return found | part_sources(f"{ours}model.{2 + len(rates)}", f"{theirs}conv2")
