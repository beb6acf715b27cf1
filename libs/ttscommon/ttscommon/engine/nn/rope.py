"""Rotary position embedding (Su et al., 2021), on neighbouring channels or on halves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.choice import use_numba, use_triton


@dataclass(frozen=True)
class Llama3Scaling:
    """Stretched wavelengths (Llama 3.1): long ones by `factor`, short ones not, the rest between.

    low, high: how often a wavelength fits into `original` positions at the two borders.
    """

    factor: float
    low: float
    high: float
    original: int


@dataclass(frozen=True)
class LongScaling:
    """Wavelengths stretched by a factor of each pair's own (LongRoPE: Ding et al., 2024).

    gain: of cosines and sines.
    """

    factors: tuple[float, ...]
    gain: float = 1.0


@dataclass(frozen=True)
class RopeConfig:
    """interleaved: rotate channels 2i, 2i + 1; otherwise channels i, i + head_dim / 2.

    sections: pairs of channels that turn by time, height and width, of a model whose positions have
    these three; every third pair is the height's or the width's as long as theirs last. rounded:
    cosines and sines are bfloat16 numbers, whatever the weights are: so they were in training.
    share: of a head's channels, the first of which turn; the others stay as they are.
    """

    theta: float = 10_000.0
    interleaved: bool = False
    scaling: Llama3Scaling | LongScaling | None = None
    sections: tuple[int, int, int] | None = None
    rounded: bool = False
    share: float = 1.0


def rope_table(length: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of all positions, each [length, head_dim / 2] float32."""
    frequency = 10_000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency[None]
    return angle.cos().float(), angle.sin().float()


def rope_frequencies(head_dim: int, config: RopeConfig) -> Tensor:
    """Radians a position of each pair of channels, [head_dim / 2] float32.

    Computed in float32 step by step as transformers does, so that checkpoints see the angles
    they were trained with.
    """
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequency = 1.0 / config.theta**exponent
    scaling = config.scaling
    return _stretched(frequency, scaling) if isinstance(scaling, Llama3Scaling) else frequency


def _shares(config: RopeConfig) -> Tensor:
    """Of each position, what a pair of channels is turned by; of other kinds nothing."""
    long = config.scaling
    factors = long.factors if isinstance(long, LongScaling) else ()
    return 1.0 / torch.tensor(factors, dtype=torch.float32)


def section_axes(pairs: int, sections: tuple[int, int, int]) -> Tensor:
    """Which of a position's three numbers turns each pair of channels, [pairs] int64."""
    axes = torch.zeros(pairs, dtype=torch.int64)
    for axis in (1, 2):
        axes[axis : 3 * sections[axis] : 3] = axis
    return axes


def _stretched(frequency: Tensor, scaling: Llama3Scaling) -> Tensor:
    wavelength = 2 * math.pi / frequency
    fits = scaling.original / wavelength
    share = (fits - scaling.low) / (scaling.high - scaling.low)
    slowed = frequency / scaling.factor
    between = (1 - share) * slowed + share * frequency
    stretched = torch.where(wavelength > scaling.original / scaling.low, slowed, between)
    return torch.where(wavelength < scaling.original / scaling.high, frequency, stretched)


def rotated(x: Tensor, cosines: Tensor, sines: Tensor, *, interleaved: bool = True) -> Tensor:
    """Rotate the last dimension by tables of half of it, which have every other dimension of x."""
    one_table_a_row = cosines.shape[:-1] == (*x.shape[:-2], 1)
    if interleaved and one_table_a_row and use_numba(x):
        from ttscommon.engine.kernels import blocks_numba

        return blocks_numba.turned(x, cosines, sines)
    if interleaved:
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    else:
        first, second = x.chunk(2, -1)
    turned = (first * cosines - second * sines, first * sines + second * cosines)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


class Rope(nn.Module):
    """Rotation by absolute position, in float32 at least, whatever the type of what is rotated.

    head_dim: channels that turn.
    """

    frequencies: Tensor
    shares: Tensor
    axes: Tensor

    def __init__(self, head_dim: int, config: RopeConfig) -> None:
        super().__init__()
        self.head_dim, self.config = int(head_dim * config.share), config
        many = isinstance(config.scaling, LongScaling) or config.sections is not None
        self._plain = not (many or config.rounded)
        head_dim = self.head_dim
        frequencies = rope_frequencies(head_dim, config)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("shares", _shares(config), persistent=False)
        if config.sections is not None:
            axes = section_axes(head_dim // 2, config.sections)
            self.register_buffer("axes", axes, persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        # A model cast to bfloat16, or filled after a stay on the meta device, would lose them.
        module = super()._apply(fn, recurse)
        device = self.frequencies.device
        self.frequencies = rope_frequencies(self.head_dim, self.config).to(device)
        self.shares = _shares(self.config).to(device)
        if self.config.sections is not None:
            self.axes = section_axes(self.head_dim // 2, self.config.sections).to(device)
        return module

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [..., head_dim / 2] float32 of integer positions [...].

        With sections positions are [..., 3].
        """
        long = self.config.scaling
        if self._plain and use_triton(positions):
            from ttscommon.engine.kernels import blocks_triton

            return blocks_triton.angles(positions, self.frequencies)
        at = positions.float()
        at = at.unsqueeze(-1) if self.config.sections is None else at.index_select(-1, self.axes)
        if isinstance(long, LongScaling):
            # Divided before it is multiplied, as the models were trained.
            angle = at * self.shares * self.frequencies
            return angle.cos() * long.gain, angle.sin() * long.gain
        angle = at * self.frequencies
        table = angle.cos(), angle.sin()
        if self.config.rounded:
            return table[0].bfloat16().float(), table[1].bfloat16().float()
        return table

    def rotate(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """[..., heads, head_dim] -> the same shape and type."""
        if self.head_dim < x.shape[-1]:
            turning, still = x.split((self.head_dim, x.shape[-1] - self.head_dim), -1)
            return torch.cat((self.rotate(turning, angles), still), -1)
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        cosines, sines = (one.unsqueeze(-2) for one in angles)
        return rotated(exact, cosines, sines, interleaved=self.config.interleaved).to(x.dtype)
