"""A stream in parts: one stream of its family after another, and silent frames between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows
from ttscommon.wire.messages import WordTime
from ttscommon.wire.silence import FLAG, SILENT, silent
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.guardedstream import LEFT, REDRAW, redraws
from ttsfamilies.base.talker.streams import Caught, CutShort, Plan, SlotWriter, TalkerStream


class Said(NamedTuple):
    """A unit of the text of one part; parts are told apart by their `prepared`."""

    part: Prepared
    unit: Any


class Silence(NamedTuple):
    """So many frames that say nothing. It ends the part before it."""

    frames: int


@dataclass(eq=False)
class _Part:
    """What was said or kept silent, as far as it is not taken. began: its first frame.

    flag: of a silence's first frame, LEFT behind a part that was left.
    """

    began: int
    stream: TalkerStream | None = None
    silent: int = 0
    flag: int = 0

    @property
    def pending(self) -> int:
        return self.silent if self.stream is None else self.stream.pending


class PartedStream(TalkerStream):
    """See TalkerStream. The present part's own stream does what there is to compute."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._waiting: deque[Said | Silence] = deque()
        self._final = False
        self._of: Prepared | None = None  # the part begun last
        self._child: TalkerStream | None = None
        self._child_told = False  # that its text is complete
        self._child_past = False  # frames behind it are in the log
        self._passed = 0  # frames of parts before the present one
        self._parts: deque[_Part] = deque()
        self._caught: list[Caught] = []  # in parts before the present one
        self._cut_short: CutShort | None = None
        self._logged: Arrays = {}  # what was restored and is not yet a part's
        self._logged_silent: Array = FLAG.zeros(0)

    @property
    def frames(self) -> int:
        present = 0 if self._child is None else self._child.frames
        return self._passed + present + len(self._logged_silent)

    @property
    def pending(self) -> int:
        return sum(part.pending for part in self._parts)

    @property
    def lanes(self) -> int:
        return 1 if self._child is None else self._child.lanes

    @property
    def extent(self) -> int:
        return 0 if self._child is None else self._child.extent

    @property
    def done(self) -> bool:
        return self._final and self._child is None and not self._waiting

    @property
    def caught(self) -> Sequence[Caught]:
        return self._caught if self._child is None else [*self._caught, *self._child.caught]

    @property
    def suspected(self) -> int:
        return 0 if self._child is None else self._child.suspected

    @property
    def cut_short(self) -> CutShort | None:
        return self._cut_short

    def feed(self, units: Sequence[Said | Silence], *, final: bool) -> None:
        self._waiting.extend(units)
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        self._logged_silent = silent(arrays)
        self._logged = {name: array for name, array in arrays.items() if name != SILENT}
        if (redraws(arrays) & LEFT).any():
            self._cut_short = CutShort()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        return None if self._child is None else self._child.plan(ahead, dry=dry)

    def prefix(self) -> Sequence[bytes]:
        return () if self._child is None else self._child.prefix()

    def inputs(self, plan: Plan) -> Arrays:
        assert self._child is not None
        return self._child.inputs(plan)

    def inputs_of(self, lane: int, plan: Plan) -> Arrays:
        assert self._child is not None
        return self._child.inputs_of(lane, plan)

    def stage(self, write: SlotWriter) -> None:
        if self._child is not None:
            self._child.stage(write)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        assert self._child is not None
        self._child.accept(cached, frames, ended)
        self._settle()

    def evict(self) -> None:
        if self._child is not None:
            self._child.evict()

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        taken: list[Arrays] = []
        words: list[WordTime] = []
        while count:
            part = self._parts[0]
            some = min(count, part.pending)
            if some:
                taken.append(self._take(part, some, words))
                count -= some
            if not part.pending and (part.stream is None or part.stream is not self._child):
                self._parts.popleft()
            elif not some:
                raise ValueError("fewer frames are pending")
        return concatenate(taken), tuple(words)

    def _take(self, part: _Part, count: int, words: list[WordTime]) -> Arrays:
        if part.stream is None:
            part.silent -= count
            nothing = {name: f.zeros(count) for name, f in self._family.spec.logged.items()}
            if part.flag:
                nothing[REDRAW][0], part.flag = part.flag, 0
            return {**nothing, SILENT: np.ones(count, FLAG.dtype)}
        arrays, ended = part.stream.take(count)
        began_s = part.began / self._family.spec.frame_rate_hz
        words += [WordTime(w.word, began_s + w.start_s, began_s + w.end_s) for w in ended]
        return {**arrays, SILENT: FLAG.zeros(count)}

    def _settle(self) -> None:
        """Go on to the part that is due, and tell it what is known of its text."""
        while True:
            self._tell()
            if self._child is not None:
                if not (self._child.done or self._child_past):
                    return
                self._pass(self._child)
                self._child = None
            if not self._waiting:
                return
            self._begin(self._waiting[0])

    def _pass(self, child: TalkerStream) -> None:
        self._passed += child.frames
        self._caught += child.caught
        self._cut_short = self._cut_short or child.cut_short

    def _tell(self) -> None:
        """The present part's text; what comes for one that is over is not said."""
        while self._waiting:
            unit = self._waiting[0]
            if isinstance(unit, Silence) or unit.part is not self._of:
                break
            self._waiting.popleft()
            if self._child is not None:
                self._child.feed((unit.unit,), final=False)
        if self._child is not None and not self._child_told and (self._waiting or self._final):
            self._child_told = True
            self._child.feed((), final=True)

    def _begin(self, unit: Said | Silence) -> None:
        if isinstance(unit, Silence):
            self._waiting.popleft()
            self._keep_silent(unit.frames)
            return
        self._of, self._child_told = unit.part, False
        self._child = self._family.open(unit.part)
        self._parts.append(_Part(self._passed, self._child))
        count = _run(self._logged_silent, 0)
        self._child_past = count < len(self._logged_silent)
        if count:
            self._child.restore(self._next_logged(count))

    def _keep_silent(self, frames: int) -> None:
        """So many frames, of which some may be in the log."""
        said = self._parts[-1].stream if self._parts else None
        behind_cut = said is not None and said.cut_short is not None
        logged = min(frames, _run(self._logged_silent, 1))
        self._next_logged(logged)
        # Where the log goes on with speech, it is what was heard.
        left = 0 if len(self._logged_silent) else frames - logged
        if left and self._parts and self._parts[-1].stream is None:
            self._parts[-1].silent += left
        elif left:
            flag = LEFT if behind_cut and not logged else 0
            self._parts.append(_Part(self._passed + logged, silent=left, flag=flag))
        self._passed += logged + left

    def _next_logged(self, count: int) -> Arrays:
        """Take the next frames of what was restored."""
        whole = rows(self._logged)
        taken = cut(self._logged, 0, count)
        self._logged = cut(self._logged, count, whole)
        self._logged_silent = self._logged_silent[count:]
        return taken


def _run(flags: Array, value: int) -> int:
    """How many of the first flags are `value`."""
    others = np.flatnonzero(flags != value)
    return int(others[0]) if len(others) else len(flags)
