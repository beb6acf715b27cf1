"""One request of Orpheus on the host: seven steps a frame, and the books of whole frames.

Ids of a frame that is not whole are the device's alone: a stream whose cache was taken away draws
them again, with the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from talker.family.streams import Plan, SlotWriter, TalkerStream
from talker.models.orpheus.config import CODES, END_SPEECH, FIRST_AUDIO, SLOTS
from talker.models.orpheus.request import OrpheusPrepared, Prompt
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import WordTime

# Instead of an id: the one that the slot's last step drew.
DRAWN: Final = -1
# Ids that may be drawn, from the end of speech to the last audio id.
CHOICES: Final = FIRST_AUDIO - END_SPEECH + SLOTS * CODES
_OFFSETS: Final = FIRST_AUDIO + CODES * np.arange(SLOTS, dtype=np.int64)


def ids_of(frames: Array) -> Array:
    """Codes [frames, 7] -> ids [frames * 7] int64."""
    return (frames.astype(np.int64) + _OFFSETS).reshape(-1)


class OrpheusStream(TalkerStream):
    """See TalkerStream."""

    def __init__(self, prepared: OrpheusPrepared) -> None:
        self._prepared = prepared
        self._prompt: Prompt | None = None
        self._codes: list[Array] = []
        self._taken = 0
        self._steps = 0  # ids drawn whose inputs can be rebuilt or are in the slot
        self._cached = self._ended = self._staged = False

    @property
    def frames(self) -> int:
        return len(self._codes)

    @property
    def pending(self) -> int:
        return len(self._codes) - self._taken

    @property
    def done(self) -> bool:
        return self._ended or (self._prompt is not None and self.frames >= self._prompt.frames)

    def feed(self, units: Sequence[Prompt], *, final: bool) -> None:
        del final  # the prompt is the last unit and the first
        for unit in units:
            self._prompt = unit

    def restore(self, arrays: Arrays) -> None:
        self._codes = list(arrays["codes"])
        self._taken, self._steps = len(self._codes), SLOTS * len(self._codes)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # the text is here, or nothing can be spoken
        if self._prompt is None or self.done or self._steps + ahead >= SLOTS * self._prompt.frames:
            return None
        end = len(self._prompt.ids) + self._steps + ahead
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    def inputs(self, plan: Plan) -> Arrays:
        assert self._prompt is not None
        if plan.decode:
            return {"id": np.full(1, DRAWN, np.int64)}
        ids = np.array(self._prompt.ids, np.int64)
        if self._codes:
            ids = np.concatenate([ids, ids_of(np.stack(self._codes))])
        return {"id": ids[plan.start : plan.end]}

    def stage(self, write: SlotWriter) -> None:
        if self._staged:
            return
        self._staged = True
        seen = np.zeros(CHOICES, np.uint8)
        if self._codes:
            seen[ids_of(np.stack(self._codes)) - END_SPEECH] = 1
        write("seen", seen)
        write("codes", np.zeros(SLOTS, np.int64))
        write("step", SLOTS * self.frames)
        for name in ("drawn", "over"):
            write(name, 0)
        write("seed", self._prepared.request.seed)
        for name in ("temperature", "top_k", "top_p", "penalty"):
            write(name, getattr(self._prepared.drawing, name))

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        assert self._prompt is not None
        self._cached = True
        self._steps = cached - len(self._prompt.ids) + 1
        self._codes.extend(frames["codes"])
        self._ended = self._ended or ended

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        first, self._taken = self._taken, self._taken + count
        return {"codes": np.stack(self._codes[first : self._taken]).astype(np.int16)}, ()

    def evict(self) -> None:
        self._cached = self._staged = False
        self._steps = SLOTS * self.frames
