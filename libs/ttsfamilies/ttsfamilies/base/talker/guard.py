"""A guard against runaways: it looks at a stream from outside, and says where to draw again from.

A redraw is a takeover from itself: the stream goes back to the last good frame, as a successor
would stand there, and draws with other noise from there on. Frames that left the engine stand. The
log says of each frame which draw it is of, so that a successor goes on with the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, rows
from ttsfamilies.base.talker.streams import Caught, CutShort, TalkerStream

REDRAW: Final = "redraw"
"""The number of the draw that a frame is of, and LEFT more where what was before it was left."""
LEFT: Final = 4
FLAG: Final = Field((), "u1", 2 * LEFT)

# Signs that a stream has lost its text, as pure functions of its frames.
#
# A successor that has the same frames sees the same signs, whenever they were computed.


Sign: TypeAlias = Literal["budget", "stall", "repeat", "still"]
SIGNS: Final[tuple[Sign, ...]] = ("budget", "stall", "repeat", "still")

# A redraw may go on for so long, whatever the budget says.
_GRACE_S: Final = 2.0
# Of what makes a sign certain.
_WHOLE: Final[Mapping[Sign, float]] = dict.fromkeys(SIGNS, 1.0)
_EARLY: Final[Mapping[Sign, float]] = {**dict.fromkeys(SIGNS, 0.25), "budget": 0.75}
# Tokens of a stall that is suspected, of those of one that is certain.
_EARLY_TOKENS: Final = 0.5


@dataclass(frozen=True)
class Stall:
    """A family's text stands still: fewer than `tokens` of it were reached in `seconds`."""

    seconds: float
    tokens: int


@dataclass(frozen=True)
class RunawaySigns:
    """What a family can see of a runaway besides its budget of frames.

    stall: where its streams tell how far in the text each frame is. repeat_s: codes of the first
    codebook that repeat for so long, with a period of at most `period_s`, are a loop, and so few
    different ones as `still` in so long are silence or a drone; 0 for frames without codes. code:
    the field that holds them; empty for the first of several codebooks.
    """

    stall: Stall | None = None
    repeat_s: float = 4.0
    period_s: float = 1.5
    still: int = 2
    code: str = ""


class Seen(NamedTuple):
    """Frames of an utterance, as far as signs are looked for in them.

    first: so many were known before the present draw, which signs other than the budget do not
    count. codes: of the first codebook, from `first` on. reached: tokens of the text by frame, from
    the utterance's first frame on; both have a value for each of the `frames`. budget: the most
    frames of the utterance.
    """

    frames: int
    first: int
    codes: Sequence[int]
    reached: Sequence[int]
    budget: float


@dataclass(frozen=True)
class Watch:
    """A family's signs at its frame rate.

    Looked for `early`, less is asked of each: frames are suspected long before a sign is certain.
    """

    signs: RunawaySigns
    rate_hz: float

    @property
    def frames(self) -> int:
        """So many codes of the youngest frames are looked at."""
        return round((self.signs.repeat_s + self.signs.period_s) * self.rate_hz)

    def find(self, seen: Seen, *, early: bool = False) -> Sign | None:
        """The first sign in the frames."""
        shares = _EARLY if early else _WHOLE
        if self._is_beyond(seen, shares["budget"]):
            return "budget"
        if self._stalls(seen, shares["stall"]):
            return "stall"
        if self._repeats(seen.codes, shares["repeat"]):
            return "repeat"
        return "still" if self._is_still(seen.codes, shares["still"]) else None

    def _is_beyond(self, seen: Seen, share: float) -> bool:
        grace = _GRACE_S * self.rate_hz if seen.first and share == 1.0 else 0.0
        return seen.frames >= max(seen.budget * share, seen.first + grace)

    def _stalls(self, seen: Seen, share: float) -> bool:
        stall = self.signs.stall
        if stall is None or not seen.reached:
            return False
        over = round(stall.seconds * share * self.rate_hz)
        if seen.frames - seen.first < over:
            return False
        gone = seen.reached[seen.frames - 1] - seen.reached[seen.frames - over]
        return gone < stall.tokens * (1.0 if share == 1.0 else _EARLY_TOKENS)

    def _repeats(self, codes: Sequence[int], share: float) -> bool:
        count = round(self.signs.repeat_s * share * self.rate_hz)
        most = min(round(self.signs.period_s * self.rate_hz), len(codes) - count)
        if count < 1 or most < 1:
            return False
        tail = np.asarray(codes[-(count + most) :])
        before: Array = np.lib.stride_tricks.sliding_window_view(tail[:-1], count)
        return bool((before == tail[-count:]).all(1).any())

    def _is_still(self, codes: Sequence[int], share: float) -> bool:
        count = round(self.signs.repeat_s * share * self.rate_hz)
        return 0 < count <= len(codes) and len(set(codes[-count:])) <= self.signs.still


MOST_REDRAWS: Final = 2
STEP: Final = 4
"""Frames between two looks."""


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

    def see(self, stream: TalkerStream, frames: Arrays, gained: int, *, ended: bool) -> bool:
        """Look at what a step has made. Of a runaway the stream goes back to the last good frame,
        to draw again from there or to leave its utterance; whether nothing follows that.
        """
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
        return False

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

    def _reach_limit(self, stream: TalkerStream) -> bool:
        """An utterance that did not end by itself had all the frames that it may have."""
        frames, suspect = stream.frames, self._outlook.suspect
        if self._watch is None or self._limited:
            self._outlook = _Outlook(frames)
        elif suspect is not None and max(suspect, self._taken) < frames:
            return self._catch("budget", stream)
        else:  # there is no room to draw again, and the stream is past it already
            self.cut_short = self.cut_short or CutShort()
            self._leaves = not stream.done
            self._outlook = _Outlook(frames)
            self.caught.append(Caught("budget", frames, 0))
        return False

    def _check(self, watch: Watch, stream: TalkerStream) -> bool:
        while self._outlook.checked + STEP <= stream.frames:
            seen = self._seen(watch, stream, self._outlook.checked + STEP)
            if (sign := self._outlook.look(watch, seen)) is not None:
                return self._catch(sign, stream)
        return False

    def _seen(self, watch: Watch, stream: TalkerStream, frames: int) -> Seen:
        """What there is to see once so many frames are known."""
        told, outlook = stream.progress(), self._outlook
        known = frames - outlook.first
        codes = outlook.codes[max(0, known - watch.frames) : known]
        most_s = self.text_s if told.longest_s is None else told.longest_s
        budget = told.waited + most_s * watch.rate_hz
        begun = outlook.begun
        return Seen(frames - begun, outlook.first - begun, codes, told.reached, budget)

    def _catch(self, sign: Sign, stream: TalkerStream) -> bool:
        outlook, frames = self._outlook, stream.frames
        good = frames if outlook.suspect is None else outlook.suspect
        last = max(good, self._taken, outlook.begun + 1)
        number = outlook.redraw + 1 if outlook.redraw < self._redraws else 0
        while self._taken + len(self._draws) > last:
            self._draws.pop()
        self.caught.append(Caught(sign, frames, number))
        stream.rewind(last)
        if number:
            self._outlook = _Outlook(outlook.begun, number, last)
            return False
        self.cut_short = self.cut_short or CutShort(stream.progress().word)
        self._leaves = stream.leave()
        self._outlook = _Outlook(stream.frames)
        return not self._leaves


def redraws(arrays: Arrays) -> Array:
    """[frames] u1; zeros where the log's writer knew of none. Raises MalformedMessage."""
    if REDRAW not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(REDRAW, arrays[REDRAW])


def _first_codes(codes: Array) -> list[int]:
    """[frames] or [frames, codebooks] -> of each frame."""
    return cast("list[int]", (codes if codes.ndim == 1 else codes[:, 0]).tolist())
