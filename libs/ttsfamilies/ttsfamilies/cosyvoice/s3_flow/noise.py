"""Draws: the flow's beginnings by frame, the source's noise by harmonic and sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import torch
from torch import Tensor

from ttsfamilies.base.codec.noise import Noise, keyed, keyed_uniform

FRAMES: Final = 15_000
_SEED: Final = 0
# Blocks of one request's draws: harmonics, then what their phases begin with, then mel bands.
_PHASES: Final = 100
_BANDS: Final = 200

# (first, count, device): of mel frames [mels, frames], of samples [harmonics, samples].
Frames: TypeAlias = Callable[[int, int, torch.device], Tensor]


@dataclass(frozen=True)
class Draws:
    """Of a request. frames: by frame from the prompt's first on. normal, uniform: by (block,
    first, count, device).
    """

    frames: Frames
    normal: Noise
    uniform: Noise


def fixed(seed: int, mels: int) -> Draws:
    """CosyVoice's: every stream's flow begins with the same table, as published."""

    def frames(first: int, count: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + count) % FRAMES
        return _table(mels)[:, at].to(device)

    return Draws(frames, keyed(seed), keyed_uniform(seed))


def fresh(seed: int, mels: int) -> Draws:
    """Chatterbox's: each request begins elsewhere."""
    normal = keyed(seed)

    def frames(first: int, count: int, device: torch.device) -> Tensor:
        return torch.stack([normal(_BANDS + band, first, count, device) for band in range(mels)])

    return Draws(frames, normal, keyed_uniform(seed))


def begin(draws: Draws, harmonics: int, device: torch.device) -> Tensor:
    """[harmonics] float64, turns that phases begin with; none for the pitch itself."""
    found = torch.cat([draws.uniform(_PHASES + i, 0, 1, device) for i in range(harmonics)])
    found[0] = 0.5
    return found.double() - 0.5


@cache
def _table(mels: int) -> Tensor:
    """[mels, FRAMES], which the reference draws when it is made; it is in no checkpoint."""
    return torch.randn(1, mels, FRAMES, generator=torch.Generator().manual_seed(_SEED))[0]
