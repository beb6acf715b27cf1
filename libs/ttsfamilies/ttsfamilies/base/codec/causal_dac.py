"""The convolutions of causal DACs, from frames to samples, which go on from carried tails.

The decoders of Qwen3-TTS and of Fish Audio S2 are these behind transformers of their own; they
differ in their activation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d
from ttsfamilies.base.codec.causal import Tails

DILATIONS: Final = (1, 3, 9)
Activation = Callable[[int], nn.Module]


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm and a two-layer MLP around a scaled residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.depthwise = CausalConv1d(size, size, 7, groups=size)
        self.norm = nn.LayerNorm(size, 1e-6)
        self.rise = nn.Linear(size, 4 * size)
        self.fall = nn.Linear(4 * size, size)
        self.scale = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> the same."""
        mixed = tails.through(self.depthwise, x).transpose(1, 2)
        hidden = nn.functional.gelu(self.rise(self.norm(mixed)))
        found: Tensor = x + (self.scale * self.fall(hidden)).transpose(1, 2)
        return found


class CausalResidualUnit(nn.Module):
    """A dilated convolution and a pointwise one around a residual."""

    def __init__(self, size: int, dilation: int, snake: Activation) -> None:
        super().__init__()
        self.snake1, self.snake2 = snake(size), snake(size)
        self.wide = CausalConv1d(size, size, 7, dilation=dilation)
        self.point = nn.Conv1d(size, size, 1)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> the same."""
        found: Tensor = x + self.point(self.snake2(tails.through(self.wide, self.snake1(x))))
        return found


class UpsampleBlock(nn.Module):
    """A transposed convolution that multiplies the rate, and three residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int, snake: Activation) -> None:
        super().__init__()
        self.snake = snake(inputs)
        self.up = CausalUpsample1d(inputs, outputs, 2 * rate, rate)
        self.units = nn.ModuleList(CausalResidualUnit(outputs, each, snake) for each in DILATIONS)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]."""
        x = tails.through(self.up, self.snake(x))
        for unit in self.units:
            x = unit(x, tails)
        return x


class CausalWave(nn.Module):
    """Frames of `latent` channels to samples.

    width: channels behind the first convolution. ratios: up from frames to the decoder's steps.
    rates: up from there to samples. snake: makes the activation of so many channels.
    """

    def __init__(
        self,
        latent: int,
        width: int,
        ratios: Sequence[int],
        rates: Sequence[int],
        snake: Activation,
    ) -> None:
        super().__init__()
        self.stretch = nn.ModuleList(
            CausalUpsample1d(latent, latent, ratio, ratio) for ratio in ratios
        )
        self.refine = nn.ModuleList(ConvNeXtBlock(latent) for _ in ratios)
        widths = [width >> i for i in range(len(rates) + 1)]
        self.widen = CausalConv1d(latent, widths[0], 7)
        self.ups = nn.ModuleList(
            UpsampleBlock(widths[i], widths[i + 1], rate, snake) for i, rate in enumerate(rates)
        )
        self.snake = snake(widths[-1])
        self.out = CausalConv1d(widths[-1], 1, 7)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """In the order in which sound passes them; pointwise ones carry nothing."""
        for stretch, refine in zip(self.stretch, self.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            assert isinstance(refine, ConvNeXtBlock)
            yield from (stretch, refine.depthwise)
        yield self.widen
        for block in self.ups:
            assert isinstance(block, UpsampleBlock)
            yield block.up
            yield from (unit.wide for unit in block.units if isinstance(unit, CausalResidualUnit))
        yield self.out

    def sound(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, latent, frames] -> [batch, samples], not yet bounded."""
        x = self.widened(x, tails)
        for block in self.ups:
            x = block(x, tails)
        return self.sounded(x, tails)

    def widened(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, latent, frames] -> [batch, width, frames * the ratios]."""
        for stretch, refine in zip(self.stretch, self.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            x = refine(tails.through(stretch, x), tails)
        return tails.through(self.widen, x)

    def sounded(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, width behind the blocks, samples] -> [batch, samples]."""
        return tails.through(self.out, self.snake(x))[:, 0]
