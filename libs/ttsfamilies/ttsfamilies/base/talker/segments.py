"""The books of a text whose frames do not follow from one another, segment by segment.

For families that are not autoregressive: a segment's prompt, once all of it has been read, says how
long everything in it lasts, and from then on any frame can be computed. A segment is a passage (see
`passages`) whose prompt is read in passes over all of its ids, and whose frames come in windows: at
once with the prompt, or in steps of their own, or both. Windows lie on a grid that begins with the
segment, so that a successor computes what its predecessor did, in the same pieces; frames that it
knows already it drops. The log says of which passage and of which id each frame is, from which word
times follow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

import numpy as np

from ttscommon.wire.fields import Arrays, Field, cut, rows
from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.lmstream import ENDLESS, LmStream
from ttsfamilies.base.talker.lmstream import REPLAY as PASSAGE_REPLAY
from ttsfamilies.base.talker.streams import Plan, Taken

# Times of words, by the ids of their passage that frames are of.


class TimedWord(Protocol):
    """A word, said with the ids start .. end of its passage; see text.frontend.Word."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def spoken(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


class WordTimes:
    """Of one stream, passage by passage. places: the id of each frame of the passage so far, none
    before those of the frames before it.
    """

    def __init__(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz
        self.places: list[int] = []
        self._word = 0  # the passage's next
        self._due: deque[tuple[int, WordTime]] = deque()

    def begin(self, places: Sequence[int] = ()) -> None:
        """A passage, of which frames may be known that were told of already."""
        self.places, self._word = list(places), 0

    def find(self, words: Sequence[TimedWord], first: int, known: int, *, ended: bool) -> None:
        """Words that the passage's frames from `known` on end, each with the frame that tells so:
        the first one behind it, or the passage's last. first: the passage's first frame.
        """
        places = np.array(self.places)
        while self._word < len(words):
            word = words[self._word]
            end = int(np.searchsorted(places, word.end))
            if end == len(places) and not ended:
                return
            self._word += 1
            told = min(end, len(places) - 1)
            if word.text and told >= known:
                start = int(np.searchsorted(places, word.start))
                self._due.append((first + told, self._timed(word, first + start, first + end)))

    def _timed(self, word: TimedWord, start: int, end: int) -> WordTime:
        start_s, end_s = (frame / self._rate_hz for frame in (start, end))
        return WordTime(word.text, start_s, end_s, word.spoken, word.first, word.last)

    def forget(self, frame: int) -> None:
        """Words that are told by frames from `frame` on."""
        while self._due and self._due[-1][0] >= frame:
            self._due.pop()

    def until(self, frame: int) -> tuple[WordTime, ...]:
        """Those that frames before `frame` tell of, once."""
        words = []
        while self._due and self._due[0][0] < frame:
            words.append(self._due.popleft()[1])
        return tuple(words)


class TimedStream(LmStream):
    """Passages whose frames say which id each is of. Subclasses find the words in `_times`."""

    def __init__(self, most_frames: int, rate_hz: float) -> None:
        super().__init__(most_frames)
        self._times = WordTimes(rate_hz)

    def _next(self) -> None:
        self._times.begin()
        super()._next()

    def rewind(self, frames: int) -> None:
        self._times.forget(frames)
        super().rewind(frames)

    def take(self, count: int) -> Taken:
        return super().take(count)._replace(words=self._times.until(self._taken))


PLACE: Final = "place"
"""The index of the id that a frame is of, which a family's launches give with their frames."""
LENGTH: Final = "length"
"""The field of a slot's state that says how many ids its segment has."""
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({**PASSAGE_REPLAY, PLACE: Field((), "i4")})


@dataclass(frozen=True)
class Grid:
    """Where windows of a segment lie: of these numbers of frames, the last again and again.

    None: all of a segment's frames come with its prompt.
    """

    frames: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(count < 1 for count in self.frames):
            raise ValueError("a window has frames")

    def window(self, frame: int) -> tuple[int, int]:
        """The first frame of the window that `frame` is in, and its number of frames."""
        starts = np.cumsum((0, *self.frames)).tolist()
        if frame >= starts[-1]:
            last = self.frames[-1]
            return frame - (frame - starts[-1]) % last, last
        at = bisect_right(starts, frame) - 1
        return starts[at], self.frames[at]


class SegmentStream(TimedStream):
    """Subclasses say what a slot is told (`begin`), which happens once a segment; see TalkerStream.
    A segment is a passage whose `length` is of ids, with its `words` in the order of its text.

    passes: over a segment's ids until it is read. Position p of a prompt is id p % ids in pass
    p // ids. grid: see Grid.
    """

    replay: ClassVar[Mapping[str, Field]] = REPLAY

    def __init__(self, rate_hz: float, passes: int = 1, grid: Grid = Grid()) -> None:
        super().__init__(ENDLESS, rate_hz)
        self._passes, self._grid = passes, grid
        self._start = 0  # of the next window

    def positions(self, branch: int) -> Arrays:
        """None: the slot knows the segment's ids."""
        return {}

    def work(self, frames: int) -> int:
        """What a window of so many frames counts for in the engine's budget of positions."""
        return frames

    def _resume(self) -> None:
        super()._resume()
        self._times.begin(self.spoken[PLACE].tolist())

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # without a segment's text nothing of it can be spoken
        if self.done or self._at >= len(self._passages):
            return None
        ids: int = self.passage.length
        if not (self._cached or ahead):
            return Plan(0, ids * self._passes, grain=ids)
        if not self._grid.frames:
            return None
        start = self._start if self._cached else self._first_window
        start, count = self._grid.window(start)
        for _ in range(ahead if self._cached else ahead - 1):
            start, count = self._grid.window(start + count)
        return Plan(start, count, decode=True, certain=True, work=self.work(count))

    @property
    def _first_window(self) -> int:
        """Where windows begin behind a prompt, unless it gives frames."""
        return self._grid.window(len(self._times.places))[0]

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        """Take a launch's frames: with those of `frame`, of which id each is."""
        begin, gained = self._start if self._cached else 0, rows(frames)
        known, self._cached = len(self._times.places), True
        fresh = cut(frames, max(0, known - begin), gained)
        self._gain(fresh)
        self._times.places += fresh[PLACE].tolist()
        self._times.find(self.passage.words, self._begun, known, ended=ended)
        if ended:
            self._next()
        elif self._grid.frames:
            self._start = self._grid.window(max(begin + gained, known))[0]

    def _evict(self) -> None:
        super()._evict()
        self._start = 0
