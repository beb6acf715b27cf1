"""Signs that a stream has lost its text, as pure functions of its frames.

A successor that has the same frames sees the same signs, whenever they were computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ttscommon.wire.fields import Array

Sign: TypeAlias = Literal["budget", "stall", "repeat", "still"]
SIGNS: Final[tuple[Sign, ...]] = ("budget", "stall", "repeat", "still")

# Of text, in letters: a digit is read as a word, and a Chinese character as a syllable.
_DIGIT, _SYLLABLE, _STOP = 6.0, 4.0, 4.0
_STOPS: Final = frozenset(".,;:!?…—\n。！？、，")
_FIRST_SYLLABLE: Final = "\u2e80"
# Text of a request at its slowest, and silence before and behind it.
_LETTERS_A_SECOND: Final = 5.0
_BEYOND_S: Final = 4.0
# A redraw may go on for so long, whatever the budget says.
_GRACE_S: Final = 2.0
# Of what makes a sign certain.
_WHOLE: Final[Mapping[Sign, float]] = dict.fromkeys(SIGNS, 1.0)
_EARLY: Final[Mapping[Sign, float]] = {**dict.fromkeys(SIGNS, 0.25), "budget": 0.75}
# Tokens of a stall that is suspected, of those of one that is certain.
_EARLY_TOKENS: Final = 0.5


def letters(text: str) -> float:
    """The length of a text in letters, as long as it may take to be read."""
    return sum(map(_weight, text))


def _weight(character: str) -> float:
    if character.isdigit():
        return _DIGIT
    if character in _STOPS:
        return _STOP
    return _SYLLABLE if character >= _FIRST_SYLLABLE else 1.0


def longest_s(count: float, speed: float = 1.0) -> float:
    """Seconds that so many letters take at the most, spoken `speed` times as fast as usual."""
    return _BEYOND_S + count / (_LETTERS_A_SECOND * speed)


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
