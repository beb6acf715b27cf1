"""The decoder's noise as a pure function of (seed, block, absolute step).

A vocoder that takes a stream over, or decodes a window again, adds the noise that was heard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

# (block, first step, steps, device) -> [steps] of standard normal noise.
Noise = Callable[[int, int, int, torch.device], Tensor]

_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND: Final = 0x94D049BB133111EB - (1 << 64)
_WORD: Final = 64


def keyed(seed: int) -> Noise:
    """The noise of a request."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = _mix(_mix(torch.tensor(_signed(seed), device=device)) ^ block)
        angle, size = (_uniform(_mix(key + 2 * at + part)) for part in (0, 1))
        return torch.sqrt(-2.0 * torch.log(size)) * torch.cos(2.0 * math.pi * angle)

    return noise


def keyed_uniform(seed: int) -> Noise:
    """Likewise, evenly between 0 and 1."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = _mix(_mix(torch.tensor(_signed(seed), device=device)) ^ block)
        return _uniform(_mix(key + 2 * at))

    return noise


def _uniform(value: Tensor) -> Tensor:
    return (_shift(value, 40).float() + 0.5) * 2.0**-24


def _mix(value: Tensor) -> Tensor:
    """splitmix64's finaliser (Steele, Lea, Flood 2014); products wrap."""
    value = value + _GOLDEN
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)


def _shift(value: Tensor, bits: int) -> Tensor:
    """A logical right shift; torch's is arithmetic on int64."""
    return (value >> bits) & ((1 << (_WORD - bits)) - 1)


def _signed(value: int) -> int:
    value &= (1 << _WORD) - 1
    return value - (1 << _WORD) if value >> (_WORD - 1) else value
