"""Word times as ElevenLabs tells them: of every character, up to the end of the audio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocols.shared.words import WrittenText
from ttscommon.wire.messages import WordTime

_MARKS: Final = ".,;:!?…–—-\"'()[]“”‘’"


@dataclass(frozen=True)
class _Character:
    char: str
    start_s: float
    end_s: float


def _spread(text: str, start_s: float, end_s: float) -> Iterator[_Character]:
    step_s = max(0.0, end_s - start_s) / max(1, len(text))
    for index, char in enumerate(text):
        yield _Character(char, start_s + index * step_s, start_s + (index + 1) * step_s)


def _as_spoken(word: WordTime) -> str:
    """What a word is read as, with its marks; as it is written where that says the same."""
    bare = word.word.strip(_MARKS)
    if not word.spoken or word.spoken.casefold() == bare.casefold():
        return word.word
    return word.spoken + word.word[len(word.word.rstrip(_MARKS)) :]


@dataclass
class _Reading:
    """One spelling of a text, as far as it is timed: each character ends where the next begins.

    What follows a word is timed when the next word is, or at the end. `tail`: what stands behind
    the last word; where that is nothing, the last character lasts to the end.
    """

    tail: str
    base_ms: int = 0
    _ready: list[_Character] = field(default_factory=list)
    _held: _Character | None = None
    _end_s: float = 0.0

    def word(self, text: str, gap: str, start_s: float, end_s: float) -> None:
        """The next word, and what stands in front of it."""
        self._until(gap, start_s)
        start_s = max(start_s, self._end_s)
        self._ready += _spread(text, start_s, end_s)
        self._end_s = max(start_s, end_s)
        if text and not self.tail:
            self._held = self._ready.pop()

    def end(self, total_s: float) -> None:
        """The audio ends there."""
        total_s = max(total_s, self._end_s)
        if self._held is not None and not self.tail:
            self._held = _Character(self._held.char, self._held.start_s, total_s)
        self._until(self.tail, total_s)

    def _until(self, gap: str, at_s: float) -> None:
        if self._held is not None:
            self._ready.append(self._held)
            self._held = None
        self._ready += _spread(gap, self._end_s, at_s)
        if gap:
            self._end_s = max(self._end_s, at_s)

    def take(self) -> list[_Character]:
        """What was timed since."""
        ready, self._ready = self._ready, []
        return ready


class Alignment:
    """The characters of a text as they are written, and as they are spoken.

    text: the whole text, where it is known; its characters are told one by one. Else one space
    stands behind each word, the last one too: clients of the sockets wait for it. relative: each
    alignment begins where the one before ended, else at the beginning.
    """

    def __init__(self, text: str | None = None, *, relative: bool = False) -> None:
        self._text = WrittenText(text)
        self._whole, self._relative = text is not None, relative
        tail = "" if self._whole else " "
        self._written, self._spoken = _Reading(tail), _Reading(tail)
        self._begun = False

    def add(self, words: Sequence[WordTime]) -> None:
        """Words that follow those before."""
        for word in words:
            times = word.start_s, word.end_s
            self._written.word(word.word, self._text.before(word), *times)
            self._spoken.word(_as_spoken(word), " " if self._begun else "", *times)
            self._begun = True

    def end(self, total_s: float) -> None:
        """There is so much audio, and no word more."""
        if self._begun:
            if self._whole and not self._written.tail:
                self._written.tail = self._text.rest()
            self._written.end(total_s)
            self._spoken.end(total_s)

    def milliseconds(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """What came since, written and spoken, as the sockets tell it."""
        return self._timed(self._written), self._timed(self._spoken)

    def _timed(self, reading: _Reading) -> dict[str, Any] | None:
        found = reading.take()
        if not found:
            return None
        starts = [round(1000 * one.start_s) for one in found]
        ends = [round(1000 * one.end_s) for one in found]
        base, reading.base_ms = reading.base_ms, ends[-1] if self._relative else 0
        return {
            "chars": [one.char for one in found],
            "charStartTimesMs": [start - base for start in starts],
            "charDurationsMs": [end - start for start, end in zip(starts, ends, strict=True)],
        }

    def seconds(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """What came since, as `with-timestamps` tells it."""
        return _seconds(self._written.take()), _seconds(self._spoken.take())


def _seconds(found: list[_Character]) -> dict[str, Any] | None:
    if not found:
        return None
    return {
        "characters": [one.char for one in found],
        "character_start_times_seconds": [round(one.start_s, 4) for one in found],
        "character_end_times_seconds": [round(one.end_s, 4) for one in found],
    }
