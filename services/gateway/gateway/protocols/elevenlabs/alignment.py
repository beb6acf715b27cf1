"""Word times as ElevenLabs tells them: of every character, up to the end of the audio."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocols.framing import WrittenText, without_markup
from ttscommon.wire.messages import WordTime

_MARKS: Final = ".,;:!?…–—-\"'()[]“”‘’"
_CLOSING: Final = "\"')]”’"
_ENDS: Final = (".", "!", "?", "…")
# A name follows them: their full stop ends no sentence.
_ABBREVIATED: Final = frozenset(("Dr", "Mr", "Mrs", "Ms", "Prof", "Rev", "Sgt", "St", "vs"))
# Of what numbers are read as.
_CAPITALISED: Final = frozenset(
    name.lower() for name in (*calendar.month_name[1:], *calendar.day_name)
)


@dataclass(frozen=True)
class _Character:
    char: str
    start_s: float
    end_s: float


def _spread(text: str, start_s: float, end_s: float) -> Iterator[_Character]:
    step_s = max(0.0, end_s - start_s) / max(1, len(text))
    for index, char in enumerate(text):
        yield _Character(char, start_s + index * step_s, start_s + (index + 1) * step_s)


def _as_spoken(word: WordTime, *, begins: bool) -> str:
    """What a word is read as, with its marks and its case; as it is written where that says the
    same. `begins`: a sentence begins with it.
    """
    bare = word.word.strip(_MARKS)
    if not word.spoken or word.spoken.casefold() == bare.casefold():
        return word.word
    ahead = word.word[: len(word.word) - len(word.word.lstrip(_MARKS))]
    behind = word.word[len(word.word.rstrip(_MARKS)) :]
    if bare in _ABBREVIATED:
        behind = behind.removeprefix(".")
    return ahead + _cased(word.spoken, bare, begins=begins) + behind


def _cased(spoken: str, bare: str, *, begins: bool) -> str:
    """Captions are made of it: names, abbreviations and sentences begin with capitals."""
    words = [one.capitalize() if one in _CAPITALISED else one for one in spoken.split(" ")]
    if bare.isupper():
        words = [one.upper() if len(one) == 1 else one for one in words]
    found = " ".join(words)
    first = bare[:1]
    return found[:1].upper() + found[1:] if first.isupper() or begins else found


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
        self._begun, self._sentence = False, True

    def add(self, words: Sequence[WordTime]) -> None:
        """Words that follow those before."""
        for word in words:
            times = word.start_s, word.end_s
            self._written.word(word.word, self._text.before(word), *times)
            spoken = _as_spoken(word, begins=self._sentence)
            self._spoken.word(spoken, " " if self._begun else "", *times)
            self._begun, self._sentence = True, spoken.rstrip(_CLOSING).endswith(_ENDS)

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


class VoiceSegments:
    """Which characters of an alignment each input of a dialogue is, as it is told in parts.

    inputs: voices and texts, which make the dialogue's text with a space between two.
    """

    def __init__(self, inputs: Iterable[tuple[str, str]]) -> None:
        self._inputs: list[tuple[str, int, int]] = []
        self._told = at = 0
        for voice, text in inputs:
            length = len(without_markup(text))
            self._inputs.append((voice, at, at + length))
            at += length + 1

    def of(self, alignment: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The segments of the next characters."""
        if alignment is None:
            return []
        starts = alignment["character_start_times_seconds"]
        ends = alignment["character_end_times_seconds"]
        base, self._told = self._told, self._told + len(starts)
        found = []
        for index, (voice, first, last) in enumerate(self._inputs):
            first, last = max(first - base, 0), min(last - base, len(starts))
            if first < last:
                found.append(
                    {
                        "voice_id": voice,
                        "start_time_seconds": starts[first],
                        "end_time_seconds": ends[last - 1],
                        "character_start_index": first,
                        "character_end_index": last,
                        "dialogue_input_index": index,
                    }
                )
        return found
