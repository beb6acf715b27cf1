"""A guard against runaways: it looks at a stream from outside, and says where to draw again from.

A redraw is a takeover from itself: the stream goes back to the last good frame, as a successor
would stand there, and draws with other noise from there on. Frames that left the engine stand. The
log says of each frame which draw it is of, so that a successor goes on with the same.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, rows
from ttsfamilies.base.talker.signs import Seen, Sign, Watch
from ttsfamilies.base.talker.streams import Caught, CutShort, SlotWriter, TalkerStream

REDRAW: Final = "redraw"
"""The number of the draw that a frame is of, and LEFT more where what was before it was left."""
LEFT: Final = 4
FLAG: Final = Field((), "u1", 2 * LEFT)
MOST_REDRAWS: Final = 2
STEP: Final = 4
"""Frames between two looks."""
# The field of a slot's state, and of raw frames, that noise is keyed by.
_SEED: Final = "seed"
_OTHER: Final = 0x9E3779B97F


def other_seed(seed: int, redraw: int) -> int:
    """What a redraw draws with; the seed itself for none."""
    return seed ^ (redraw * _OTHER)


def seeded(write: SlotWriter, redraw: int) -> SlotWriter:
    """Writes a slot's state, for a draw of this number."""

    def reseeded(name: str, value: Any, at: int = 0) -> None:
        write(name, other_seed(value, redraw) if name == _SEED else value, at)

    return reseeded if redraw else write


def redraws(arrays: Arrays) -> Array:
    """[frames] u1; zeros where the log's writer knew of none. Raises MalformedMessage."""
    if REDRAW not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(REDRAW, arrays[REDRAW])


class Back(NamedTuple):
    """Go back to the first `frame` frames, to draw again as this number; 0: leave the utterance."""

    frame: int
    redraw: int


class _Outlook:
    """Suspicion, step by step: of the present draw of the utterance that is spoken.

    first: its first frame. suspect: the frame that suspicion began behind.
    """

    def __init__(self, begun: int, redraw: int = 0, first: int | None = None) -> None:
        self.begun, self.redraw = begun, redraw
        self.first = begun if first is None else first
        self.codes: list[int] = []
        self.checked = self.first
        self.suspect: int | None = None
        self._clear = 0  # checks since there was a sign

    def look(self, watch: Watch, seen: Seen) -> Sign | None:
        """Look at the frames `seen`, one step more than before; the sign that is certain."""
        self.checked += STEP
        if watch.find(seen, early=True) is None:
            self._clear += 1
            if self._clear * STEP >= watch.rate_hz:
                self.suspect = None
            return None
        self._clear = 0
        if self.suspect is None:
            self.suspect = self.checked
        return watch.find(seen)


class Guard:
    """Watches one stream.

    watch: None where nothing is looked for. code: the field whose codes are looked at, of several
    codebooks the first; empty for none. drawn: other noise makes other frames. limited: the request
    bounds its frames itself. text_s: seconds that its text takes at the most, once that is known.
    """

    def __init__(
        self, watch: Watch | None, code: str = "", *, drawn: bool = True, limited: bool = False
    ) -> None:
        self._watch, self._code = watch, code
        self._redraws, self._limited = MOST_REDRAWS * drawn, limited
        self.text_s = math.inf
        self._taken = 0
        self._behind: Arrays | None = None  # restored, and not in the outlook
        self._draws: deque[int] = deque()  # of frames that are not taken
        self._leaves = False  # the next frame is the first behind what was left
        self._outlook = _Outlook(0)
        self.caught: list[Caught] = []
        self.cut_short: CutShort | None = None

    @property
    def draw(self) -> int:
        """The number of the present one."""
        return self._outlook.redraw

    def suspected(self, frames: int) -> int:
        """Of so many frames, the youngest that are better kept back if the listener can wait."""
        suspect = self._outlook.suspect
        return 0 if suspect is None else frames - max(suspect, self._taken)

    def restore(self, arrays: Arrays) -> None:
        """These frames are in the log."""
        self._behind, self._taken = {**arrays, REDRAW: redraws(arrays)}, rows(arrays)
        if (self._behind[REDRAW] & LEFT).any():
            self.cut_short = CutShort()

    def catch_up(self, stream: TalkerStream) -> None:
        """Know of the utterance that was restored what its first talker knew."""
        if (known := self._behind) is None:
            return
        self._behind, begun = None, stream.progress().begun
        draws = known[REDRAW][begun:] & (LEFT - 1)
        if not len(draws):
            self._outlook = _Outlook(begun)
            return
        first = begun + int(np.searchsorted(draws, draws[-1]))
        self._outlook = _Outlook(begun, int(draws[-1]), first)
        if self._code:
            self._outlook.codes = _first_codes(known[self._code][first:])

    def see(self, stream: TalkerStream, frames: Arrays, gained: int, *, ended: bool) -> Back | None:
        """Look at what a step has made; where to go back to, if that is a runaway."""
        if gained:
            self._know(stream.frames - gained)
            self._gain(frames, gained)
        # A sequence may end to be told more of the utterance's text.
        over = stream.done or stream.progress().begun != self._outlook.begun
        if over and ended:
            self._outlook = _Outlook(stream.frames)
        elif over:
            return self._reach_limit(stream)
        elif gained and self._watch is not None:
            return self._check(self._watch, stream)
        return None

    def leave(self, stream: TalkerStream) -> bool:
        """Have the stream leave its utterance; whether it goes on with another."""
        self.cut_short = self.cut_short or CutShort(stream.progress().word)
        self._leaves = stream.leave()
        self._outlook = _Outlook(stream.frames)
        return self._leaves

    def took(self, count: int, frames: int) -> Array:
        """Flags of the oldest frames, of so many, which leave the engine: [count] u1."""
        self._know(frames)
        self._taken += count
        return np.array([self._draws.popleft() for _ in range(count)], FLAG.dtype)

    def _know(self, frames: int) -> None:
        """So many: behind what is restored a stream may know of silence that no step has made."""
        known = self._behind
        draw = self.draw if known is None else int(known[REDRAW][-1]) & (LEFT - 1)
        self._draws.extend([draw] * (frames - self._taken - len(self._draws)))

    def _gain(self, frames: Arrays, gained: int) -> None:
        outlook = self._outlook
        self._draws.extend([outlook.redraw] * gained)
        if self._leaves:
            self._draws[-gained] |= LEFT
            self._leaves = False
        if self._code:
            outlook.codes += _first_codes(frames[self._code][-gained:])

    def _reach_limit(self, stream: TalkerStream) -> Back | None:
        """An utterance that did not end by itself had all the frames that it may have."""
        frames, suspect = stream.frames, self._outlook.suspect
        if self._watch is None or self._limited:
            self._outlook = _Outlook(frames)
        elif suspect is not None and max(suspect, self._taken) < frames:
            return self._catch("budget", frames)
        else:  # there is no room to draw again, and the stream is past it already
            self.cut_short = self.cut_short or CutShort()
            self._leaves = not stream.done
            self._outlook = _Outlook(frames)
            self.caught.append(Caught("budget", frames, 0))
        return None

    def _check(self, watch: Watch, stream: TalkerStream) -> Back | None:
        while self._outlook.checked + STEP <= stream.frames:
            seen = self._seen(watch, stream, self._outlook.checked + STEP)
            if (sign := self._outlook.look(watch, seen)) is not None:
                return self._catch(sign, stream.frames)
        return None

    def _seen(self, watch: Watch, stream: TalkerStream, frames: int) -> Seen:
        """What there is to see once so many frames are known."""
        told, outlook = stream.progress(), self._outlook
        known = frames - outlook.first
        codes = outlook.codes[max(0, known - watch.frames) : known]
        most_s = self.text_s if told.longest_s is None else told.longest_s
        budget = told.waited + most_s * watch.rate_hz
        begun = outlook.begun
        return Seen(frames - begun, outlook.first - begun, codes, told.reached, budget)

    def _catch(self, sign: Sign, frames: int) -> Back:
        """Go back to the last good frame, and draw again from there or leave the utterance."""
        outlook = self._outlook
        good = frames if outlook.suspect is None else outlook.suspect
        last = max(good, self._taken, outlook.begun + 1)
        number = outlook.redraw + 1 if outlook.redraw < self._redraws else 0
        while self._taken + len(self._draws) > last:
            self._draws.pop()
        if number:
            self._outlook = _Outlook(outlook.begun, number, last)
        self.caught.append(Caught(sign, frames, number))
        return Back(last, number)


def logged(raw: Arrays, flags: Array) -> Arrays:
    """With the draw that each frame is of, and the seed that it was drawn with."""
    if _SEED not in raw or not flags.any():
        return {**raw, REDRAW: flags}
    draws = (flags & (LEFT - 1)).tolist()
    seeds = [other_seed(*one) for one in zip(raw[_SEED].tolist(), draws, strict=True)]
    return {**raw, _SEED: np.array(seeds), REDRAW: flags}


def _first_codes(codes: Array) -> list[int]:
    """[frames] or [frames, codebooks] -> of each frame."""
    return cast("list[int]", (codes if codes.ndim == 1 else codes[:, 0]).tolist())
