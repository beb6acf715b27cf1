"""A request as the engine speaks it: parts that its family's streams speak, and silence.

Each part of the text that is speech is a stream of its family, which does what there is to compute,
and has a guard beside it; silent frames are computed by no step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttscommon.wire.fields import FLAG, SILENT, Array, Arrays, concatenate, cut, rows, silent
from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.guard import LEFT, REDRAW, Guard, redraws
from ttsfamilies.base.talker.lmstream import longest_s
from ttsfamilies.base.talker.served import Said, Silence
from ttsfamilies.base.talker.streams import (
    SEED,
    Caught,
    CutShort,
    Plan,
    Taken,
    TalkerStream,
    other_seed,
)


@dataclass(eq=False)
class _Speech:
    """What a stream says, as far as it is not taken. began: its first frame."""

    began: int
    stream: TalkerStream
    guard: Guard
    taken: int = 0

    @property
    def pending(self) -> int:
        return self.stream.frames - self.taken


@dataclass(eq=False)
class _Silent:
    """Frames of silence that are not taken. flag: of the first, LEFT behind what was left."""

    pending: int
    flag: int = 0


class Parts:
    """The parts of one request. Units of a text are Said or Silence, or what its family reads."""

    def __init__(self, family: Family, prepared: Prepared) -> None:
        self._family, self._prepared = family, prepared
        self._waiting: deque[Said | Silence] = deque()
        self._final = False
        self._of: Prepared | None = None  # the part begun last
        self._present: _Speech | None = None
        self._letters = 0.0  # of its text
        self._fed = False  # that the present part's text is complete
        self._over = False  # it was left, or frames behind it are in the log
        self._passed = 0  # frames of parts before the present one
        self._parts: deque[_Speech | _Silent] = deque()
        self._caught: list[Caught] = []  # in parts before the present one
        self.cut_short: CutShort | None = None
        """None while all of the text was said."""
        self._logged: Arrays = {}  # what was restored and is not yet a part's
        self._logged_silent: Array = FLAG.zeros(0)

    @property
    def stream(self) -> TalkerStream:
        """Of the present part, where there is a plan."""
        assert self._present is not None
        return self._present.stream

    @property
    def draw(self) -> int:
        """The number of the draw that its next frame is of."""
        return 0 if self._present is None else self._present.guard.draw

    @property
    def frames(self) -> int:
        """Known so far: restored, taken and pending."""
        present = 0 if self._present is None else self._present.stream.frames
        return self._passed + present + len(self._logged_silent)

    @property
    def pending(self) -> int:
        """Frames that are not taken."""
        return sum(part.pending for part in self._parts)

    @property
    def branches(self) -> int:
        return 1 if self._present is None else self._present.stream.branches

    @property
    def extent(self) -> int:
        return 0 if self._present is None else self._present.stream.extent

    @property
    def done(self) -> bool:
        """All text is spoken; nothing will be computed any more."""
        return self._final and self._present is None and not self._waiting

    @property
    def caught(self) -> Sequence[Caught]:
        """Runaways so far. Behind each, what was in flight is lost, as by `evict`."""
        return [*self._caught, *([] if self._present is None else self._present.guard.caught)]

    @property
    def suspected(self) -> int:
        """The youngest pending frames that are better kept back, if the listener can wait."""
        speech = self._present
        return 0 if speech is None else speech.guard.suspected(speech.stream.frames)

    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        """Take what `Prepared.read` made of later text; after `final` there is no more."""
        for unit in units:
            known = isinstance(unit, Said | Silence)
            self._waiting.append(unit if known else Said(self._prepared, unit))
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        """Go on after these logged frames, all of the request so far; before any text."""
        self._logged, self._logged_silent = arrays, FLAG.zeros(rows(arrays))
        if self._family.silences:
            self._logged_silent = silent(arrays)
            self._logged = {name: array for name, array in arrays.items() if name != SILENT}
        if (redraws(arrays) & LEFT).any():
            self.cut_short = CutShort()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        """See TalkerStream."""
        if (speech := self._present) is None:
            return None
        if (plan := speech.stream.plan(ahead, dry=dry)) is not None:
            speech.guard.catch_up(speech.stream)
        return plan

    def prefix(self) -> Sequence[bytes]:
        """See TalkerStream."""
        return () if self._present is None else self._present.stream.prefix()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        """See TalkerStream. What ran away is drawn again, or left."""
        speech = self._present
        assert speech is not None
        stream, before = speech.stream, speech.stream.frames
        stream.accept(cached, frames, ended)
        if speech.guard.see(stream, frames, stream.frames - before, ended=ended):
            self._over = True
        self._settle()

    def evict(self) -> None:
        """The engine took cache and slot state away, and with them what was in flight."""
        if self._present is not None:
            self._present.stream.rewind(self._present.stream.frames)

    def take(self, count: int) -> Taken:
        """The oldest `count` pending frames; see TalkerStream."""
        taken: list[Taken] = []
        while count:
            part = self._parts[0]
            some = min(count, part.pending)
            if some:
                taken.append(self._take(part, some))
                count -= some
            if not part.pending and part is not self._present:
                self._parts.popleft()
            elif not some:
                raise ValueError("fewer frames are pending")
        return Taken(
            concatenate([one.frames for one in taken]),
            tuple(word for one in taken for word in one.words),
            tuple(said for one in taken for said in one.said),
        )

    def _take(self, part: _Speech | _Silent, count: int) -> Taken:
        if isinstance(part, _Silent):
            part.pending -= count
            nothing = {name: f.zeros(count) for name, f in self._family.spec.logged.items()}
            if part.flag:
                nothing[REDRAW][0], part.flag = part.flag, 0
            return Taken({**nothing, SILENT: np.ones(count, FLAG.dtype)})
        part.taken += count
        flags = part.guard.took(count, part.stream.frames)
        taken = part.stream.take(count)
        frames = taken.frames if self._family.watch is None else _logged(taken.frames, flags)
        if self._family.silences:
            frames = {**frames, SILENT: FLAG.zeros(count)}
        return taken._replace(frames=frames, words=self._timed(part, taken.words))

    def _timed(self, part: _Speech, words: Sequence[WordTime]) -> tuple[WordTime, ...]:
        if not part.began:
            return tuple(words)
        began_s = part.began / self._family.spec.frame_rate_hz
        return tuple(WordTime(w.word, began_s + w.start_s, began_s + w.end_s) for w in words)

    def _settle(self) -> None:
        """Go on to the part that is due, and tell it what is known of its text."""
        while True:
            self._tell()
            if (speech := self._present) is not None:
                if not (speech.stream.done or self._over):
                    return
                self._passed += speech.stream.frames
                self._caught += speech.guard.caught
                self.cut_short = self.cut_short or speech.guard.cut_short
                self._present = None
            if not self._waiting:
                return
            self._begin(self._waiting[0])

    def _tell(self) -> None:
        """The present part's text; what comes for one that is over is not said."""
        speech, told = self._present, list[Said]()
        while self._waiting:
            unit = self._waiting[0]
            if isinstance(unit, Silence) or unit.part is not self._of:
                break
            self._waiting.popleft()
            told.append(unit)
        if speech is None:
            return
        final = not self._fed and bool(self._waiting or self._final)
        if told or final:
            speech.stream.feed([one.unit for one in told], final=final)
        self._fed = self._fed or final
        if told:
            self._letters = told[-1].letters
        if self._fed:
            speech.guard.text_s = longest_s(self._letters, self._prepared.request.speed)

    def _begin(self, unit: Said | Silence) -> None:
        if isinstance(unit, Silence):
            self._waiting.popleft()
            self._keep_silent(unit.frames)
            return
        self._of, self._fed, self._letters = unit.part, False, 0.0
        speech = _Speech(self._passed, self._family.open(unit.part), self._guard())
        self._present = speech
        self._parts.append(speech)
        count = _run(self._logged_silent, 0)
        self._over = count < len(self._logged_silent)
        if count:
            known = self._next_logged(count)
            speech.taken = count
            speech.guard.restore(known)
            speech.stream.restore(known)

    def _guard(self) -> Guard:
        request, family = self._prepared.request, self._family
        return Guard(
            family.watch if request.runaway_guard else None,
            family.watched_code,
            drawn=request.sampling.temperature != 0.0,
            limited=request.sampling.max_new_tokens is not None,
        )

    def _keep_silent(self, frames: int) -> None:
        """So many frames, of which some may be in the log."""
        last = self._parts[-1] if self._parts else None
        behind_cut = isinstance(last, _Speech) and last.guard.cut_short is not None
        known = min(frames, _run(self._logged_silent, 1))
        self._next_logged(known)
        # Where the log goes on with speech, it is what was heard.
        left = 0 if len(self._logged_silent) else frames - known
        if left and isinstance(last, _Silent):
            last.pending += left
        elif left:
            self._parts.append(_Silent(left, LEFT if behind_cut and not known else 0))
        self._passed += known + left

    def _next_logged(self, count: int) -> Arrays:
        """Take the next frames of what was restored."""
        whole = rows(self._logged)
        taken = cut(self._logged, 0, count)
        self._logged = cut(self._logged, count, whole)
        self._logged_silent = self._logged_silent[count:]
        return taken


def _logged(raw: Arrays, flags: Array) -> Arrays:
    """With the draw that each frame is of, and the seed that it was drawn with."""
    if SEED not in raw or not flags.any():
        return {**raw, REDRAW: flags}
    draws = (flags & (LEFT - 1)).tolist()
    seeds = [other_seed(*one) for one in zip(raw[SEED].tolist(), draws, strict=True)]
    return {**raw, SEED: np.array(seeds), REDRAW: flags}


def _run(flags: Array, value: int) -> int:
    """How many of the first flags are `value`."""
    others = np.flatnonzero(flags != value)
    return int(others[0]) if len(others) else len(flags)
