"""DAC (Kumar et al., 2023): its convolutions, its decoder of latents, and its causal kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d
from ttscommon.engine.nn.weights import Source, named
from ttsfamilies.base.codec.causal import CausalStack, Tails

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
        return self.out_proj(self.codebook(codes).transpose(1, 2))


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


def decoder_sources(net: WaveDecoder, ours: str, theirs: str) -> dict[str, Source]:
    """By the names that transformers gives; what both begin with, dot included."""
    last = len(net.model) - 1
    ends = {"model.0": "conv1", f"model.{last - 1}": "snake1", f"model.{last}": "conv2"}
    return named(net, ends | _BLOCK, ours, theirs)


# Of its blocks, whose residual units stand behind a snake and a convolution.
_BLOCK: Final = {
    **{f"model.*.*.{mine}": f"block.*-1.res_unit*-1.{other}" for mine, other in UNIT.items()},
    "model.*.0": "block.*-1.snake1",
    "model.*.1": "block.*-1.conv_t1",
}


# The convolutions of causal DACs, from frames to samples, which go on from carried tails.
#
# The decoders of Qwen3-TTS and of Fish Audio S2 are these behind transformers of their own; they
# differ in their activation.


Activation = Callable[[int], nn.Module]
# The way through a convolution: all of a sound at once, or on from what its stream carries.
Through = Callable[[CausalConv1d | CausalUpsample1d, Tensor], Tensor]


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
        return x + (self.scale * self.fall(hidden)).transpose(1, 2)


class CausalResidualUnit(nn.Module):
    """A dilated convolution and a pointwise one around a residual.

    depthwise: the dilated one stays within channels.
    """

    def __init__(
        self, size: int, dilation: int, snake: Activation, *, depthwise: bool = False
    ) -> None:
        super().__init__()
        self.snake1, self.snake2 = snake(size), snake(size)
        groups = size if depthwise else 1
        self.wide = CausalConv1d(size, size, 7, dilation=dilation, groups=groups)
        self.point = nn.Conv1d(size, size, 1)

    def forward(self, x: Tensor, through: Through) -> Tensor:
        """[batch, size, steps] -> the same."""
        return x + self.point(self.snake2(through(self.wide, self.snake1(x))))


def causal_units(size: int, snake: Activation, *, depthwise: bool = False) -> nn.ModuleList:
    """A residual unit for each dilation."""
    return nn.ModuleList(
        CausalResidualUnit(size, each, snake, depthwise=depthwise) for each in DILATIONS
    )


class UpsampleBlock(nn.Module):
    """A transposed convolution that multiplies the rate, and three residual units."""

    def __init__(
        self, inputs: int, outputs: int, rate: int, snake: Activation, *, depthwise: bool = False
    ) -> None:
        super().__init__()
        self.snake = snake(inputs)
        self.up = CausalUpsample1d(inputs, outputs, 2 * rate, rate)
        self.units = causal_units(outputs, snake, depthwise=depthwise)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """See CausalStack."""
        yield self.up
        yield from (unit.wide for unit in self.units if isinstance(unit, CausalResidualUnit))

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]."""
        x = tails.through(self.up, self.snake(x))
        for unit in self.units:
            x = unit(x, tails.through)
        return x


class CausalWave(CausalStack):
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
        for stretch, refine in zip(self.stretch, self.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            assert isinstance(refine, ConvNeXtBlock)
            yield from (stretch, refine.depthwise)
        yield self.widen
        for block in self.ups:
            assert isinstance(block, UpsampleBlock)
            yield from block.convolutions()
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
