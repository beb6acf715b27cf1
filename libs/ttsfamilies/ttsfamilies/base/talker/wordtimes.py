"""Times of words, by the ids of their passage that frames are of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.streams import Taken


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
