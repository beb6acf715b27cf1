"""Frames by passage, and sound as it is given out."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Arrays, rows
from ttsfamilies.base.codec.base import Samples
from ttsfamilies.cosyvoice.s3_flow.sizes import SAMPLE_RATE
from ttsfamilies.cosyvoice.s3_flow.spec import PASSAGE

NONE: Final = np.zeros(0, np.float32)
_FADE: Final = SAMPLE_RATE // 50


def follows(of: int, frames: Arrays) -> bool:
    """Whether another passage than `of` begins with the first frame."""
    return PASSAGE in frames and rows(frames) > 0 and int(frames[PASSAGE][0]) != of


def of_one(frames: Arrays) -> int:
    """How many of the first frames are of one passage."""
    if not rows(frames) or PASSAGE not in frames:
        return rows(frames)
    others = np.flatnonzero(frames[PASSAGE] != frames[PASSAGE][0])
    return int(others[0]) if len(others) else rows(frames)


def samples(*parts: Tensor) -> Samples:
    return np.concatenate([NONE, *(part.float().cpu().numpy() for part in parts)])


def faded(sound: Tensor, at: int) -> Tensor:
    """Chatterbox's passages begin with silence and a fade, against spill from the recording.

    at: the passage's sample that `sound` begins with.
    """
    if at >= 2 * _FADE:
        return sound
    rise = (torch.cos(torch.linspace(torch.pi, 0, _FADE)) + 1) / 2
    whole = torch.cat((torch.zeros(_FADE), rise)).to(sound)[at : at + len(sound)]
    return torch.cat((sound[: len(whole)] * whole, sound[len(whole) :]))
