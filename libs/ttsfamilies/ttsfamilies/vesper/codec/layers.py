"""The layers of the vesper decoder: causal, with a carried past, answering a few steps late."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.convnext import depthwise, tail_after

SAMPLE_RATE: Final = 24_000
HOP: Final = 300
"""Samples of a hop as the decoder has learned them."""
FFT: Final = 1200
BINS: Final = FFT // 2 + 1
PARTS: Final = 4
WINDOWS: Final = FFT // HOP
"""Windows that a sample lies in."""
HOPS_PER_S: Final = SAMPLE_RATE // HOP
VOICED_HZ: Final = 40.0
HIGHEST_HARMONIC_HZ: Final = 11_000.0
CYCLE: Final = 1 << 32
LOUDEST: Final = 7.0


class LateConvNeXt(nn.Module):
    """A ConvNeXt block that carries its past and looks `ahead` steps ahead.

    Its output at a step is that of the input `ahead` steps before.
    """

    def __init__(self, size: int, kernel: int, expansion: int, ahead: int) -> None:
        super().__init__()
        self.kernel, self.ahead = kernel, ahead
        self.depthwise = nn.Conv1d(size, size, kernel, groups=size)
        self.norm = nn.LayerNorm(size)
        self.rise = nn.Linear(size, expansion * size)
        self.fall = nn.Linear(expansion * size, size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, padded: Tensor) -> Tensor:
        """[batch, kernel - 1 + steps, size], the past and the new -> [batch, steps, size]."""
        first = self.kernel - 1 - self.ahead
        hidden: Tensor = self.rise(self.norm(depthwise(padded, self.depthwise)))
        added: Tensor = self.fall(nn.functional.gelu(hidden))
        return padded[:, first : first + added.shape[1]] + self.scale * added


def through(
    blocks: nn.ModuleList, x: Tensor, tails: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """x [batch, steps, size] through blocks `LateConvNeXt` of one kernel, and the tails behind
    `lengths` steps.

    tails: [batch, blocks, kernel - 1, size], of each block's input.
    """
    seen = []
    for block, tail in zip(blocks, tails.unbind(1), strict=True):
        seen.append(torch.cat((tail, x), 1))
        x = block(seen[-1])
    return x, torch.stack([tail_after(padded, lengths, tails.shape[2]) for padded in seen], 1)
