"""Texts and streams without a network: they count frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.streams import Plan, SlotWriter, Taken, TalkerStream

_MOST_ROWS: Final = 4096
_ZEROS: Final = np.zeros((_MOST_ROWS, 1), np.int8)
_AGAIN: Final = Plan(1, 1, decode=True)


def frames_of(count: int) -> dict[str, Array]:
    """So many frames that hold nothing."""
    return {"codes": _ZEROS[:count] if count <= _MOST_ROWS else np.zeros((count, 1), np.int8)}


class PlannedRequest(Prepared):
    """A text of so many frames."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request = request

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[int]:
        """Lengths are known beforehand: nothing is read."""
        del pieces, final
        yield from ()


class PlannedStream(TalkerStream):
    """Says as many frames as it was fed, as many in a step as its launch gave."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt  # positions; 0 without a cache
        self._frames = self._limit = self._cached = 0
        self._final = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def left(self) -> int:
        """Frames of what it was fed that are still to come."""
        return self._limit - self._frames

    @property
    def done(self) -> bool:
        return self._final and self._frames >= self._limit

    def feed(self, units: Sequence[int], *, final: bool) -> None:
        self._limit += sum(units)
        self._final = self._final or final

    def restore(self, arrays: Arrays) -> None:
        self._frames = rows(arrays)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry
        if self._frames + ahead >= self._limit:
            return None
        if not self._cached and not ahead:
            return Plan(0, max(1, self._prompt) + (self._frames if self._prompt else 0))
        return Plan(self._prompt + self._frames + ahead - 1, 1, True) if self._prompt else _AGAIN

    def inputs(self, plan: Plan, lane: int = 0) -> Arrays:
        del plan, lane
        return {}

    def stage(self, write: SlotWriter) -> None:
        """There is no state to write."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del ended
        self._cached = cached
        self._frames += len(frames["codes"])

    def take(self, count: int) -> Taken:
        return Taken(frames_of(count))

    def rewind(self, frames: int) -> None:
        self._frames = frames
        self._cached = 0
