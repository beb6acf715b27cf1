"""HiFi-GAN's generator (Kong et al., 2020), piece by piece.

Modules have the names of the published tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, leaky_relu_

from ttsfamilies.base.codec.causal import StreamContext, convolved, reach_of

_SLOPE: Final = 0.1
_LAST_SLOPE: Final = 0.01
PRE: Final = 7
"""Taps of the first convolution."""
_POST: Final = 7


@dataclass(frozen=True)
class ResidualSizes:
    """A residual block: its kernel, and the dilations of its convolutions.

    paired: a plain convolution follows each dilated one.
    """

    kernel: int
    dilations: tuple[int, ...]
    paired: bool

    @property
    def reach(self) -> int:
        """Steps on each side that an output depends on."""
        half = self.kernel // 2
        return sum(half * d + half * self.paired for d in self.dilations)


@dataclass(frozen=True)
class UpsampleSizes:
    """Steps in, times `rate`; then blocks side by side."""

    kernel: int
    rate: int
    blocks: tuple[ResidualSizes, ...]


@dataclass(frozen=True)
class Sizes:
    """latent: of a frame. speaker: what is told of one, 0 for none. biased: the last layer is."""

    latent: int
    channels: int
    speaker: int
    stages: tuple[UpsampleSizes, ...]
    biased: bool = False

    @property
    def lag(self) -> int:
        """Samples that wait for frames behind them."""
        lag = PRE // 2
        for stage in self.stages:
            reach = max(block.reach for block in stage.blocks)
            lag = lag * stage.rate + (stage.kernel - stage.rate) // 2 + reach
        return lag + _POST // 2

    @property
    def context(self) -> int:
        """Frames before a frame that its samples depend on."""
        low = -(_POST // 2)
        for stage in reversed(self.stages):
            reach = max(block.reach for block in stage.blocks)
            around = (stage.kernel - stage.rate) // 2
            low = -((stage.kernel - 1 - around - (low - reach)) // stage.rate)
        return PRE // 2 - low


class DilatedResidual(nn.Module):
    def __init__(self, channels: int, block: ResidualSizes) -> None:
        super().__init__()

        def convolutions(dilations: tuple[int, ...]) -> nn.ModuleList:
            return nn.ModuleList(
                nn.Conv1d(channels, channels, block.kernel, dilation=d) for d in dilations
            )

        if block.paired:
            self.convs1 = convolutions(block.dilations)
            self.convs2 = convolutions((1,) * len(block.dilations))
        else:
            self.convs = convolutions(block.dilations)
        self._paired = block.paired

    def forward(self, x: Tensor, context: StreamContext) -> Tensor:
        if not self._paired:
            for conv in self.convs:
                found, x = _convolved(conv, x, context)
                x = found.add_(x)
            return x
        for first, second in zip(self.convs1, self.convs2, strict=True):
            found, _ = _convolved(second, _convolved(first, x, context)[0], context)
            x, found = context.in_step((x, found))
            x = found.add_(x)
        return x


def _convolved(conv: nn.Module, x: Tensor, context: StreamContext) -> tuple[Tensor, Tensor]:
    """What a convolution makes of x, and those steps of x that it is of."""
    assert isinstance(conv, nn.Conv2d)
    reach = reach_of(conv)
    whole = context.around(x, reach)
    found = convolved(conv, leaky_relu(whole, _SLOPE))
    return found, whole[..., reach : reach + found.shape[-1]]


class Generator(nn.Module):
    """Latents [1, latent, frames] to samples in -1 .. 1, piece by piece; see StreamContext."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, channels = sizes, sizes.channels
        self.conv_pre = nn.Conv1d(sizes.latent, channels, PRE)
        self.cond = nn.Conv1d(sizes.speaker, channels, 1) if sizes.speaker else None
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for stage in sizes.stages:
            self.ups.append(nn.ConvTranspose1d(channels, channels // 2, stage.kernel, stage.rate))
            channels //= 2
            self.resblocks.extend(DilatedResidual(channels, block) for block in stage.blocks)
        self.conv_post = nn.Conv1d(channels, 1, _POST, bias=sizes.biased)

    def forward(self, z: Tensor, told: Tensor | None, context: StreamContext) -> Tensor:
        """told: [1, channels, 1], what `cond` makes of a speaker. [samples]."""
        x = _first(self.conv_pre, z[:, :, None], context)
        if told is not None:
            x = x + told[..., None]
        count = len(self.resblocks) // len(self.ups)
        for index, up in enumerate(self.ups):
            assert isinstance(up, nn.ConvTranspose2d)
            x = context.upsampled(up, leaky_relu_(x, _SLOPE))
            blocks = self.resblocks[index * count : (index + 1) * count]
            first, *others = context.in_step([block(x, context) for block in blocks])
            for other in others:
                first.add_(other)
            x = first.div_(count)
        return torch.tanh_(_first(self.conv_post, leaky_relu(x, _LAST_SLOPE), context))[0, 0, 0]


def _first(conv: nn.Module, x: Tensor, context: StreamContext) -> Tensor:
    assert isinstance(conv, nn.Conv2d)
    return convolved(conv, context.around(x, reach_of(conv)))
