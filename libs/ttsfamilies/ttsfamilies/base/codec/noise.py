"""The decoder's noise as a pure function of (seed, block, absolute step).

A vocoder that takes a stream over, or decodes a window again, adds the noise that was heard.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ttsfamilies.base.sampling.noise import mix, shift, signed

# (block, first step, steps, device) -> [steps] of standard normal noise.
Noise = Callable[[int, int, int, torch.device], Tensor]


def keyed(seed: int) -> Noise:
    """The noise of a request."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = mix(mix(torch.tensor(signed(seed), device=device)) ^ block)
        angle, size = (_uniform(mix(key + 2 * at + part)) for part in (0, 1))
        return torch.sqrt(-2.0 * torch.log(size)) * torch.cos(2.0 * math.pi * angle)

    return noise


def keyed_uniform(seed: int) -> Noise:
    """Likewise, evenly between 0 and 1."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = mix(mix(torch.tensor(signed(seed), device=device)) ^ block)
        return _uniform(mix(key + 2 * at))

    return noise


def _uniform(value: Tensor) -> Tensor:
    return (shift(value, 40).float() + 0.5) * 2.0**-24
