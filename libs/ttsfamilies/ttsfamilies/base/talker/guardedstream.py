"""A stream whose runaways are noticed, and drawn again from the last good frame.

A redraw is a takeover from itself: the family's stream is opened anew behind frames that it knows,
as a successor's would be, and draws with other noise from there on. Frames that left the engine
stand. The log says of each frame which draw it is of, so that a successor goes on with the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, concatenate, cut, rows
from ttscommon.wire.messages import SaidText, WordTime
from ttsfamilies.base.talker.outlook import STEP, Outlook
from ttsfamilies.base.talker.signs import Seen, Sign, Watch, longest_s
from ttsfamilies.base.talker.streams import Caught, CutShort, Plan, SlotWriter, TalkerStream

REDRAW: Final = "redraw"
"""The number of the draw that a frame is of, and LEFT more where what was before it was left."""
LEFT: Final = 4
FLAG: Final = Field((), "u1", 2 * LEFT)
MOST_REDRAWS: Final = 2
# The field of a slot's state, and of raw frames, that noise is keyed by.
_SEED: Final = "seed"
_OTHER: Final = 0x9E3779B97F


def other_seed(seed: int, redraw: int) -> int:
    """What a redraw draws with; the seed itself for none."""
    return seed ^ (redraw * _OTHER)


class GuardedStream(TalkerStream):
    """See TalkerStream.

    opened: makes the family's stream, without text. watch: None where nothing is looked for. drawn:
    other noise makes other frames. code: the field whose codes are looked at, of several codebooks
    the first; empty for none.
    limited: the request bounds its frames itself.
    """

    def __init__(
        self,
        opened: Callable[[], TalkerStream],
        watch: Watch | None,
        *,
        code: str = "",
        drawn: bool = True,
        limited: bool = False,
        speed: float = 1.0,
    ) -> None:
        self._opened, self._watch, self._code = opened, watch, code
        self._redraws, self._limited, self._speed = MOST_REDRAWS * drawn, limited, speed
        self._inner = opened()
        self._units: list[Any] = []
        self._final = self._over = False
        self._text_s: float = 0.0
        self._known: list[Arrays] = []  # restorable, of all frames that are not the stream's alone
        self._kept: deque[tuple[Arrays, tuple[WordTime, ...]]] = deque()
        self._taken = 0
        self._behind = False  # what was restored is not in the outlook
        self._draws: deque[int] = deque()  # of frames that are not taken
        self._leaves = False  # the next frame is the first behind what was left
        self._outlook = Outlook(0)
        self._caught: list[Caught] = []
        self._cut_short: CutShort | None = None

    @property
    def frames(self) -> int:
        return self._inner.frames

    @property
    def pending(self) -> int:
        return self._inner.frames - self._taken

    @property
    def done(self) -> bool:
        return self._over or self._inner.done

    @property
    def caught(self) -> Sequence[Caught]:
        return self._caught

    @property
    def suspected(self) -> int:
        suspect = self._outlook.suspect
        return 0 if suspect is None else self.frames - max(suspect, self._taken)

    @property
    def cut_short(self) -> CutShort | None:
        return self._cut_short

    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        """Take units of `Weighed` text."""
        told = [one.unit for one in units]
        for one in units:
            self._text_s = longest_s(one.letters, self._speed)
        self._final = self._final or final
        if self._watch is not None:
            self._units += told
        self._inner.feed(told, final=final)

    def restore(self, arrays: Arrays) -> None:
        flags = redraws(arrays)
        self._known = [{**self._inner.remembered(arrays), REDRAW: flags}]
        self._taken = len(flags)
        self._behind = bool(len(flags))
        if (flags & LEFT).any():
            self._cut_short = CutShort()
        self._inner.restore({**arrays, REDRAW: flags})

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        return None if self._over else self._inner.plan(ahead, dry=dry)

    @property
    def lanes(self) -> int:
        return self._inner.lanes

    @property
    def extent(self) -> int:
        return self._inner.extent

    def prefix(self) -> Sequence[bytes]:
        return self._inner.prefix()

    def inputs(self, plan: Plan) -> Arrays:
        return self._inner.inputs(plan)

    def inputs_of(self, lane: int, plan: Plan) -> Arrays:
        return self._inner.inputs_of(lane, plan)

    def stage(self, write: SlotWriter) -> None:
        if self._behind:
            self._catch_up()
        if not (redraw := self._outlook.redraw):
            self._inner.stage(write)
            return

        def seeded(name: str, value: Any, at: int = 0) -> None:
            write(name, other_seed(value, redraw) if name == _SEED else value, at)

        self._inner.stage(seeded)

    def said(self) -> tuple[SaidText, ...]:
        return self._inner.said()

    def evict(self) -> None:
        self._inner.evict()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        inner, before = self._inner, self._inner.frames
        inner.accept(cached, frames, ended)
        if gained := inner.frames - before:
            self._gain(frames, gained)
        # A sequence may end to be told more of the utterance's text.
        over = inner.done or inner.begun != self._outlook.begun
        if over and ended:
            self._outlook = Outlook(inner.frames)
        elif over:
            self._reach_limit()
        elif gained and self._watch is not None:
            self._check(self._watch)

    def _catch_up(self) -> None:
        """Know of the utterance that was restored what its first talker knew."""
        self._behind = False
        begun, flags = self._inner.begun, self._known[0][REDRAW]
        draws = flags[begun:] & (LEFT - 1)
        if not len(draws):
            self._outlook = Outlook(begun)
            return
        first = begun + int(np.searchsorted(draws, draws[-1]))
        self._outlook = Outlook(begun, int(draws[-1]), first)
        if self._code:
            self._outlook.codes = _first_codes(self._known[0][self._code][first:])

    def _gain(self, frames: Arrays, gained: int) -> None:
        outlook = self._outlook
        self._draws.extend([outlook.redraw] * gained)
        if self._leaves:
            self._draws[-gained] |= LEFT
            self._leaves = False
        if self._code:
            outlook.codes += _first_codes(frames[self._code][-gained:])

    def _reach_limit(self) -> None:
        """An utterance that did not end by itself had all the frames that it may have."""
        frames, suspect = self._inner.frames, self._outlook.suspect
        if self._watch is None or self._limited:
            self._outlook = Outlook(frames)
        elif suspect is not None and max(suspect, self._taken) < frames:
            self._catch("budget")
        else:  # there is no room to draw again, and the stream is past it already
            self._cut_short = self._cut_short or CutShort()
            self._leaves = not self.done
            self._outlook = Outlook(frames)
            self._caught.append(Caught("budget", frames, 0))

    def _check(self, watch: Watch) -> None:
        while self._outlook.checked + STEP <= self._inner.frames:
            seen = self._seen(watch, self._outlook.checked + STEP)
            if (sign := self._outlook.look(watch, seen)) is not None:
                self._catch(sign)
                return

    def _seen(self, watch: Watch, frames: int) -> Seen:
        """What there is to see once so many frames are known."""
        inner, outlook = self._inner, self._outlook
        known = frames - outlook.first
        codes = outlook.codes[max(0, known - watch.frames) : known]
        usual_s = self._text_s if self._final else math.inf
        most_s = usual_s if inner.longest_s is None else inner.longest_s
        budget = inner.waited + most_s * watch.rate_hz
        begun = outlook.begun
        return Seen(frames - begun, outlook.first - begun, codes, inner.reached, budget)

    def _catch(self, sign: Sign) -> None:
        """Go back to the last good frame, and draw again from there or leave the utterance."""
        outlook, at = self._outlook, self._inner.frames
        good = at if outlook.suspect is None else outlook.suspect
        last = max(good, self._taken, outlook.begun + 1)
        number = outlook.redraw + 1 if outlook.redraw < self._redraws else 0
        self._go_back(last)
        if number:
            self._outlook = Outlook(outlook.begun, number, last)
        else:
            self._leave()
        self._caught.append(Caught(sign, at, number))

    def _go_back(self, last: int) -> None:
        """Forget all but the first `last` frames."""
        while self._taken + len(self._kept) < last:
            at = len(self._kept)
            raw, words = self._inner.take(1)
            self._kept.append((raw, words))
            self._remember(raw, np.array([self._draws[at]], FLAG.dtype))
        while self._taken + len(self._kept) > last:
            self._kept.pop()
        while self._taken + len(self._draws) > last:
            self._draws.pop()
        self._known = [cut(concatenate(self._known), 0, last)]
        self._inner = self._opened()
        self._inner.restore(self._known[0])
        self._inner.feed(self._units, final=self._final)

    def _leave(self) -> None:
        self._cut_short = self._cut_short or CutShort(self._inner.word)
        self._leaves = self._inner.leave()
        self._over = not self._leaves
        self._outlook = Outlook(self._inner.frames)

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        parts: list[Arrays] = []
        words: list[WordTime] = []
        for _ in range(min(count, len(self._kept))):
            raw, some = self._kept.popleft()
            parts.append(raw)
            words += some
        flags = np.array([self._draws.popleft() for _ in range(count)], FLAG.dtype)
        if fresh := count - len(parts):
            raw, some = self._inner.take(fresh)
            self._remember(raw, flags[-fresh:])
            parts.append(raw)
            words += some
        self._taken += count
        return self._logged(concatenate(parts), flags), tuple(words)

    def _remember(self, raw: Arrays, flags: Array) -> None:
        if self._watch is not None:
            self._known.append({**self._inner.restorable(raw), REDRAW: flags})

    @staticmethod
    def _logged(raw: Arrays, flags: Array) -> Arrays:
        """With the draw that each frame is of, and the seed that it was drawn with."""
        if _SEED not in raw or not flags.any():
            return {**raw, REDRAW: flags}
        draws = (flags & (LEFT - 1)).tolist()
        seeds = [other_seed(*one) for one in zip(raw[_SEED].tolist(), draws, strict=True)]
        return {**raw, _SEED: np.array(seeds), REDRAW: flags}


def _first_codes(codes: Array) -> list[int]:
    """[frames] or [frames, codebooks] -> of each frame."""
    return cast("list[int]", (codes if codes.ndim == 1 else codes[:, 0]).tolist())


def redraws(arrays: Arrays) -> Array:
    """[frames] u1; zeros where the log's writer knew of none. Raises MalformedMessage."""
    if REDRAW not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(REDRAW, arrays[REDRAW])
