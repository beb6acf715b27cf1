"""Rows of delayed codes: which codebooks of a row are drawn, and which row is the last.

A slot's state is three numbers (`COUNTS`), which follow from the rows: a successor rebuilds them
from the log. `made`: rows so far. `since`: rows from the one on in which the first codebook ended,
0 before. `left`: rows that still complete frames, of no meaning before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Array, Field

COUNTS: Final = dict.fromkeys(("made", "since", "left"), Field((), "i8"))


class Ending(NamedTuple):
    """Of each row of a launch: [rows] int64. See above."""

    since: Tensor
    left: Tensor

    @property
    def over(self) -> Tensor:
        """[rows] bool: the row is the last that completes a frame."""
        return (self.since > 0) & (self.left < 1)


def unbegun(made: Tensor, delays: Tensor) -> Tensor:
    """[rows], [codebooks] -> [rows, codebooks] bool: the first frame's code comes later."""
    return made[:, None] < delays


def closed(since: Tensor, delays: Tensor) -> Tensor:
    """[rows], [codebooks] -> [rows, codebooks] bool: the codebook has ended by its delay."""
    return since[:, None] > delays


def ending(ends: Tensor, before: Ending, most: int) -> Ending:
    """Behind a row in which `ends` [rows, codebooks] bool are over; most: see DelayPattern.

    A frame lacks a code where its first codebook has ended, and the frames before it are whole.
    """
    begins = (before.since == 0) & ends.any(-1)
    since = torch.where(before.since > 0, before.since + 1, begins.long())
    left = torch.where(begins, most - ends[:, 0].long(), before.left - 1)
    return Ending(since, left)


def counts(ends: Array, delay_pattern: DelayPattern) -> dict[str, int]:
    """COUNTS behind rows of which `ends` [rows, codebooks] bool are over."""
    found = np.flatnonzero(ends.any(1))
    if not len(found):
        return {"made": len(ends), "since": 0, "left": 0}
    first = int(found[0])
    since = len(ends) - first
    left = delay_pattern.most - int(ends[first, 0]) - (since - 1)
    return {"made": len(ends), "since": since, "left": left}


def is_over(ends: Array, delay_pattern: DelayPattern) -> bool:
    """Whether rows of which `ends` [rows, codebooks] bool are over complete all their frames."""
    told = counts(ends, delay_pattern)
    return told["since"] > 0 and told["left"] < 1
