"""The convolutions of DAC (Kumar et al., 2023) and of the codecs made after it. None is causal."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

DILATIONS: Final = (1, 3, 9)
KERNEL: Final = 7
AROUND: Final = KERNEL // 2


class Snake(nn.Module):
    """x + sin^2(a x) / a, a learnt period a channel (Liu et al., 2020)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> the same."""
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


def wide(inputs: int, outputs: int, dilation: int = 1, *, depthwise: bool = False) -> nn.Conv1d:
    """As many steps as it is given, AROUND of them on either side in each sum."""
    groups = inputs if depthwise else 1
    return nn.Conv1d(
        inputs, outputs, KERNEL, dilation=dilation, padding=AROUND * dilation, groups=groups
    )


class ResidualUnit(nn.Module):
    """A dilated convolution and one across channels, around a residual.

    depthwise: the dilated one stays within channels.
    """

    def __init__(self, channels: int, dilation: int, *, depthwise: bool = False) -> None:
        super().__init__()
        self.block = nn.Sequential(
            Snake(channels),
            wide(channels, channels, dilation, depthwise=depthwise),
            Snake(channels),
            nn.Conv1d(channels, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> the same."""
        found: Tensor = self.block(x)
        return x + found


def units(channels: int, *, depthwise: bool = False) -> list[nn.Module]:
    """A residual unit for each dilation."""
    return [ResidualUnit(channels, dilation, depthwise=depthwise) for dilation in DILATIONS]


# Of a residual unit, by its names here, as transformers calls them.
UNIT: Final = {"block.0": "snake1", "block.1": "conv1", "block.2": "snake2", "block.3": "conv2"}
