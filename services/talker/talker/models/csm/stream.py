"""One request of CSM on the host: a step a frame, and the books of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from talker.family.prefixes import keys
from talker.family.streams import Plan, SlotWriter, TalkerStream
from talker.models.csm.request import FRAME, CsmPrepared, CsmPrompt
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import WordTime


class CsmStream(TalkerStream):
    """See TalkerStream."""

    def __init__(self, prepared: CsmPrepared, codebooks: int) -> None:
        self._prepared, self._codebooks = prepared, codebooks
        self._prompt: CsmPrompt | None = None
        self._prefix: tuple[bytes, ...] = ()
        self._codes: list[Array] = []
        self._taken = 0
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

    def feed(self, units: Sequence[CsmPrompt], *, final: bool) -> None:
        del final  # the prompt is the last unit and the first
        for unit in units:
            self._prompt = unit
            self._prefix = keys((unit.text, unit.codes), unit.turns)

    def prefix(self) -> Sequence[bytes]:
        """Turns: a voice's, or those of a conversation that goes on."""
        return self._prefix

    def restore(self, arrays: Arrays) -> None:
        self._codes = list(arrays["codes"])
        self._taken = len(self._codes)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # the text is here, or nothing can be spoken
        coming = self.frames + ahead
        if self._prompt is None or self.done or coming >= self._prompt.frames:
            return None
        end = len(self._prompt.text) + coming
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    def inputs(self, plan: Plan) -> Arrays:
        assert self._prompt is not None
        text, codes = self._prompt.text, self._prompt.codes
        if self._codes:
            text = np.concatenate([text, np.full(self.frames, FRAME)])
            codes = np.concatenate([codes, np.stack(self._codes)])
        return {"text": text[plan.start : plan.end], "codes": codes[plan.start : plan.end]}

    def stage(self, write: SlotWriter) -> None:
        if self._staged:
            return
        self._staged = True
        write("codes", self._codes[-1] if self._codes else np.zeros(self._codebooks, np.int64))
        write("frame", self.frames)
        write("over", 0)
        write("seed", self._prepared.request.seed)
        for name, value in asdict(self._prepared.drawing).items():
            write(name, value)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del cached  # always all of what was planned
        self._cached = True
        self._codes.extend(frames["codes"])
        self._ended = self._ended or ended

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        first, self._taken = self._taken, self._taken + count
        return {"codes": np.stack(self._codes[first : self._taken]).astype(np.int16)}, ()

    def evict(self) -> None:
        self._cached = self._staged = False
