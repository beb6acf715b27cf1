"""Rows of delayed codes: which codebooks of a row are drawn, and which row is the last.

A slot's state is three numbers (`COUNTS`), which follow from the rows: a successor folds those that
are logged through the function that moves it on. `made`: rows so far. `since`: rows from the one on
in which the first codebook ended, 0 before. `left`: rows that still complete frames, of no meaning
before.
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
    """COUNTS behind rows of which `ends` [rows, codebooks] bool are over: as `ending` has them."""
    told = Ending(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    begun = np.logical_or.accumulate(ends.any(1))  # before that, nothing but `made` moves
    for row in torch.from_numpy(ends[begun]):
        told = ending(row[None], told, delay_pattern.most)
    return {"made": len(ends), "since": int(told.since), "left": int(told.left)}


def is_over(ends: Array, delay_pattern: DelayPattern) -> bool:
    """Whether rows of which `ends` [rows, codebooks] bool are over complete all their frames."""
    told = counts(ends, delay_pattern)
    return told["since"] > 0 and told["left"] < 1
