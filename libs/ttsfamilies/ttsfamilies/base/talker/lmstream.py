"""The books of a text that a language model speaks: passages, each a sequence of its own.

A passage is a prompt and the frames that its steps make; where a model knows all of a text before
its first frame, the text is one. It ends when the model says so, or at its most frames; the next
begins at position 0. All else follows from the passages and from the frames so far, which are kept
as the log has them: a successor that is given the same frames stands where its predecessor stood,
and so does a stream that forgets its last ones.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, concatenate, cut, empty, rows
from ttsfamilies.base.talker.streams import Plan, Progress, SlotWriter, Taken, TalkerStream

PASSAGE: Final = "passage"
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({PASSAGE: Field((), "i4")})
ENDLESS: Final = 1 << 40
# Instead of an id: the one that the slot's last step drew.
DRAWN: Final = -1


class LmStream(TalkerStream):
    """Subclasses say what a position holds and what a slot is told; see TalkerStream. A passage is
    what is prefilled before its first frame: `length` positions, behind which `frames` may follow.

    frame: the fields of a frame. replay: what is logged with it, PASSAGE where there may be
    several. steps: a frame's, in positions. held: positions in the cache that the passage stands
    behind, of those before it; 0 where each begins anew.
    """

    frame: Mapping[str, Field]
    replay: ClassVar[Mapping[str, Field]] = REPLAY
    steps: ClassVar[int] = 1

    def __init__(self, most_frames: int = ENDLESS) -> None:
        """most_frames: of all passages together."""
        self._most, self.held = most_frames, 0
        self._passages: list[Any] = []
        self._final = False
        self._at = 0  # the passage that is spoken
        self._begun = 0  # its first frame
        self._done = 0  # steps of it whose inputs can be rebuilt or are in the slot
        self._books: list[Arrays] = []
        self._frames = self._taken = 0
        self._cached = self._staged = False

    @property
    def frames(self) -> int:
        return self._frames

    def progress(self) -> Progress:
        known = self._at < len(self._passages)
        # Families may not know how long their passages last.
        return Progress(self._begun, getattr(self.passage, "longest_s", None) if known else None)

    def leave(self) -> bool:
        self._next()
        return True

    @property
    def done(self) -> bool:
        over = self._final and self._at >= len(self._passages)
        return over or self._frames >= self._most

    @property
    def extent(self) -> int:
        """Slow speech takes all frames that a passage may come to, most takes half of them."""
        if self._at >= len(self._passages):
            return 0
        frames: int = self.passage.frames
        return self.length + self.steps * frames // 2

    @property
    def passage(self) -> Any:
        """The one that is spoken."""
        return self._passages[self._at]

    @property
    def length(self) -> int:
        """Positions in front of the passage's first step."""
        return self.passage.length

    @property
    def books(self) -> Arrays:
        """All frames so far."""
        if len(self._books) > 1:
            self._books = [concatenate(self._books)]
        return self._books[0] if self._books else empty({**self.frame, **self.replay})

    @property
    def spoken(self) -> Arrays:
        """Frames of the passage so far."""
        return cut(self.books, self._begun, self._frames)

    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        self._passages.extend(units)
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        self._books = [{name: arrays[name] for name in (*self.frame, *self.replay)}]
        self._taken = rows(arrays)
        self._resume()

    def rewind(self, frames: int) -> None:
        if frames < self._frames:
            self._books = [cut(self.books, 0, frames)]
            self._resume()
        self._evict()
        self._settle()  # the last of the frames may be all that its passage had left

    def _resume(self) -> None:
        """Stand behind the frames in the books."""
        self._frames = rows(self.books)
        of = self.books.get(PASSAGE, np.zeros(self._frames, np.int32))
        self._at = int(of[-1]) if self._frames else 0
        self._begun = int(np.searchsorted(of, self._at))
        self._evict()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # without a passage's text nothing of it can be spoken
        if self.done or self._at >= len(self._passages):
            return None
        if self._done + ahead >= self.steps * self._limit:
            return None
        end = self.length + self._done + ahead
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(self.held, end - self.held)

    @property
    def _limit(self) -> int:
        """Frames that the passage may come to."""
        return min(self.passage.frames, self._most - self._begun)

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        if plan.decode and (drawn := self.drawn()):
            return drawn
        return cut(self.positions(branch), plan.start, plan.end)

    @abstractmethod
    def positions(self, branch: int) -> Arrays:
        """Inputs of all positions so far, those of the passage's frames included."""

    def drawn(self) -> Arrays:
        """Inputs of a step whose id is on the device alone; none where the books have it."""
        return {}

    def stage(self, write: SlotWriter) -> None:
        if not self._staged and self._at < len(self._passages):
            self._staged = True
            self.begin(write)

    @abstractmethod
    def begin(self, write: SlotWriter) -> None:
        """Write all of the slot's state, behind the frames so far."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._cached = True
        self._done = cached - self.length + 1
        self._gain(frames)
        if ended:
            self._next()
        else:
            self._settle()

    def _gain(self, frames: Arrays) -> None:
        """Take frames of the passage into the books, as the log has them."""
        fields = {**self.frame, **self.replay}
        count = len(frames[next(iter(self.frame))])
        told = {PASSAGE: np.full(count, self._at), **frames}
        if count:
            self._books.append({n: told[n].astype(f.dtype, copy=False) for n, f in fields.items()})
            self._frames += count

    def _settle(self) -> None:
        """Go on with the next passage where this one has all of its frames."""
        if self._at < len(self._passages) and self._done >= self.steps * self.passage.frames:
            self._next()

    def _next(self) -> None:
        self._at, self._begun = self._at + 1, self._frames
        self._evict()

    def take(self, count: int) -> Taken:
        first, self._taken = self._taken, self._taken + count
        return Taken(cut(self.books, first, self._taken))

    def _evict(self) -> None:
        self._cached = self._staged = False
        self._done = self._replayed()

    def _replayed(self) -> int:
        """Steps of the passage that its frames in the books took."""
        return self.steps * (self._frames - self._begun)


class SequenceStream(LmStream):
    """A text whose passages are one sequence: each stands behind all before it and their frames."""

    _filled = 0  # positions in the cache

    @property
    def length(self) -> int:
        before: int = sum(passage.length for passage in self._passages[: self._at + 1])
        return before + self._begun

    def laid_out(self, name: str) -> Iterator[tuple[Any, Array]]:
        """Passages so far, and of each what the books call `name` of its frames."""
        books = self.books
        ends = np.searchsorted(books[PASSAGE], range(1, self._at + 1))
        told = self._passages[: self._at + 1]
        yield from zip(told, np.split(books[name], ends), strict=True)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._filled = cached
        super().accept(cached, frames, ended)

    def _next(self) -> None:
        filled = self._filled if self._cached else 0
        super()._next()
        self.held = filled

    def _evict(self) -> None:
        super()._evict()
        self.held = 0


# How long what is said may sound, by the length of its text.


# Of text, in letters: a digit is read as a word, and a Chinese character as a syllable.
_DIGIT, _SYLLABLE, _STOP = 6.0, 4.0, 4.0
_STOPS: Final = frozenset(".,;:!?…—\n。！？、，")
_FIRST_SYLLABLE: Final = "\u2e80"
# Text of a request at its slowest, and silence before and behind it.
_LETTERS_A_SECOND: Final = 5.0
_BEYOND_S: Final = 4.0


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
