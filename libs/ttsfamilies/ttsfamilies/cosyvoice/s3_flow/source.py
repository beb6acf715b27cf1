"""HiFT's source: harmonics of the pitch where there is a voice, and noise.

Three ways of the phase are published. Whichever it is, what a stretch has to know of those before
it is one number a harmonic, summed in float64: turns up to its first frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from ttsfamilies.base.codec.windowed import Noise, keyed, keyed_uniform
from ttsfamilies.cosyvoice.s3_flow.sizes import SAMPLE_RATE

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


_LOUD: Final = 0.1
_VOICED_HZ: Final = 10.0
_VOICED_NOISE: Final = 0.003
_UNVOICED_NOISE: Final = _LOUD / 3


class Phase(Enum):
    """Between two frames: on a straight line from centre to centre (CosyVoice 2), not at all
    (CosyVoice 3), or at each frame's own pace (Chatterbox).
    """

    LINE = "line"
    HELD = "held"
    PACE = "pace"


def turns(pitch: Tensor, harmonics: int, rate: int = SAMPLE_RATE) -> Tensor:
    """[frames] Hz float64 -> [harmonics, frames], of a sample."""
    times = torch.arange(1, harmonics + 1, dtype=pitch.dtype, device=pitch.device)
    return (pitch * times[:, None] / rate) % 1


def waves(
    phase: Phase,
    pitch: Tensor,
    before: Tensor,
    begin: Tensor,
    noise: Tensor,
    rate: int = SAMPLE_RATE,
) -> Tensor:
    """[harmonics, samples] float64 of frames whose pitch is [frames] Hz.

    before: [harmonics], turns of all frames before. begin: [harmonics], where the stream's phases
    began, in turns. noise: [harmonics, samples]. rate: of samples, in Hz.
    """
    hop = noise.shape[1] // len(pitch)
    pace = turns(pitch, len(before), rate)
    after = before[:, None] + pace.cumsum(1)
    if phase is Phase.LINE:
        wide = nn.functional.interpolate(after[None] * hop, scale_factor=hop, mode="linear")[0]
    elif phase is Phase.HELD:
        wide = _wide(after * hop, hop)
    else:
        within = torch.arange(1, hop + 1, dtype=pace.dtype, device=pace.device)
        whole = (after - pace)[..., None] * hop + pace[..., None] * within
        wide = whole.flatten(1)
    sines = torch.sin(2 * math.pi * ((wide + begin[:, None]) % 1))
    voiced = _wide((pitch > _VOICED_HZ).to(pitch.dtype), hop)
    loud = voiced * _VOICED_NOISE + (1 - voiced) * _UNVOICED_NOISE
    return sines * _LOUD * voiced + loud * noise


def _wide(x: Tensor, hop: int) -> Tensor:
    return x.repeat_interleave(hop, -1)
