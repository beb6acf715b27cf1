"""Keyed noise: a pure function of (seed, frame, draw, column), with no generator state at all.

A successor that computes the same logits draws the same ids, whatever shares its batch. Everything
is in tensors, so that a device can draw without the host. The 24 bits of a uniform number are the
same in every version; only logarithms may differ in their last bit from one machine to another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import torch
from torch import Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
# What float32 would round up to 1 is this: of 1 Gumbel's noise is infinite, and drew any id.
_BELOW_ONE: Final = 1.0 - 2.0**-24


def signed(value: int) -> int:
    """The int64 of the same 64 bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def shift(value: Tensor, bits: int) -> Tensor:
    """A logical right shift; torch's is arithmetic on int64."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def mix(value: Tensor) -> Tensor:
    """splitmix64's finaliser (Steele, Lea, Flood 2014); products wrap."""
    value = value + signed(_GOLDEN)
    value = (value ^ shift(value, 30)) * signed(_FIRST)
    value = (value ^ shift(value, 27)) * signed(_SECOND)
    return value ^ shift(value, 31)


def frame_keys(seed: Tensor, frame: Tensor) -> Tensor:
    """What all draws of a frame have in common: [rows] int64 each -> [rows] int64."""
    return mix(mix(seed) ^ frame)


def draw_keys(frame_key: Tensor, draw: int | Tensor) -> Tensor:
    """The 64-bit keys of one draw in each row, from `frame_keys`: [rows] int64 -> [rows] int64.

    draw: the codebook, or a negative number for draws that are not of a codebook.
    """
    return mix(frame_key ^ draw)


def uniforms(key: Tensor, count: int) -> Tensor:
    """[rows] int64 -> [rows, count] float32 in (0, 1), 24 bits each; the same hash."""
    return uniforms_of(key, torch.arange(count, device=key.device))


def uniforms_of(key: Tensor, ids: Tensor) -> Tensor:
    """[rows] int64, ids [ids] or [rows, ids] int64 -> [rows, ids]: those columns of `uniforms`."""
    return _fractions(key[:, None] + (ids + 1) * signed(_GOLDEN))


def _fractions(value: Tensor) -> Tensor:
    """The hash of sums of key and column."""
    value = (value ^ shift(value, 30)) * signed(_FIRST)
    value = (value ^ shift(value, 27)) * signed(_SECOND)
    return ((shift(value, 40).to(torch.float32) + 0.5) * 2.0**-24).clamp_(max=_BELOW_ONE)


def _gumbel(uniform: Tensor) -> Tensor:
    return -torch.log(-torch.log(uniform))


def to_gumbel(uniform: Tensor) -> Tensor:
    """Even numbers of a tensor made into Gumbel noise, in place, with the bits of `gumbel`."""
    return uniform.log_().neg_().log_().neg_()


def gumbel(key: Tensor, count: int) -> Tensor:
    """Noise whose maximum with logits is a draw: [...] int64 -> [..., count] float32."""
    return _gumbel(uniforms(key.reshape(-1), count)).view(*key.shape, count)


def normals(key: Tensor, count: int) -> Tensor:
    """Standard normal noise of solvers: [rows] int64 -> [rows, count] float32, by Box and Muller.

    Column i is made of columns 2i and 2i + 1 of `uniforms`, so that a longer row begins with the
    numbers of a shorter one.
    """
    first, second = uniforms(key, 2 * count).view(len(key), count, 2).unbind(-1)
    return torch.sqrt(-2.0 * torch.log(first)) * torch.cos(2.0 * math.pi * second)


def gumbels(frame_key: Tensor, draws: Sequence[int], counts: Sequence[int]) -> tuple[Tensor, ...]:
    """`gumbel` of several draws of a frame: [...] int64 -> for each draw [..., its count]."""
    keys = draw_keys(frame_key[..., None], torch.tensor(draws))
    sums = [key[..., None] + _columns(n) for key, n in zip(keys.unbind(-1), counts, strict=True)]
    return torch.split(_gumbel(_fractions(torch.cat(sums, -1))), list(counts), -1)


@lru_cache(maxsize=64)
def _columns(count: int) -> Tensor:
    return (torch.arange(count) + 1) * signed(_GOLDEN)


@dataclass(frozen=True)
class Noise:
    """Where a step's random numbers come from: [rows] int64 each."""

    seed: Tensor
    frame: Tensor

    @cached_property
    def keys(self) -> Tensor:
        """What all draws of a frame have in common."""
        return frame_keys(self.seed, self.frame)

    def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
        """Gumbel noise of draw `draw`: of the columns `ids` [rows, ids], or of the first `ids`."""
        key = draw_keys(self.keys, draw)
        found = uniforms(key, ids) if isinstance(ids, int) else uniforms_of(key, ids)
        return _gumbel(found)

    def uniform(self, draw: int, count: int) -> Tensor:
        """Even noise of draw `draw`, in (0, 1): [rows, count] float32."""
        return uniforms(draw_keys(self.keys, draw), count)

    def normal(self, draw: int, count: int) -> Tensor:
        """Standard normal noise of draw `draw`: [rows, count] float32."""
        return normals(draw_keys(self.keys, draw), count)

    def rows(self, index: Tensor) -> Noise:
        """The noise of some of the rows."""
        found = Noise(self.seed[index], self.frame[index])
        found.__dict__["keys"] = self.keys[index]  # hashed once for all draws of a step
        return found
