"""Utterances cut where a person would breathe, for models that speak whole segments.

Nothing of a segment is heard before all of it is computed. So the first is short, and each may be
half as long again as the one before it, in whose time it is computed. Where a cut falls follows
from the text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ttsfamilies.base.text.frontend import Word
from ttsfamilies.base.text.segment import JOINTS

_MARKS: Final = frozenset(";:,.!?—…")
_SPACE: Final = " "
# Fewer are spoken badly by themselves, as users of Kokoro say.
_LEAST: Final = 12


class Spoken(NamedTuple):
    """Phones, each a character, with spaces between words and marks behind them; and the words."""

    symbols: str
    words: tuple[Word, ...]


@dataclass
class Breaths:
    """Symbols of a segment: of the first one, by how much they may grow, and of any."""

    first: int = 48
    growth: float = 1.5
    most: int = 160

    def __post_init__(self) -> None:
        self._budget = float(self.first)

    def cut(self, whole: Spoken) -> Iterator[Spoken]:
        """The segments of an utterance, in order."""
        start, last = 0, len(whole.symbols)
        while start < last:
            end = self._end(whole, start)
            yield _part(whole, start, end)
            self._budget = min(self._budget * self.growth, float(self.most))
            start = end + (end < last and whole.symbols[end] == _SPACE)

    def _end(self, whole: Spoken, start: int) -> int:
        """Behind the last mark that the budget has room for, or before the last joining word; where
        it has neither, at the first of them behind it; at a space where a segment can be no longer.
        """
        symbols, last = whole.symbols, len(whole.symbols)
        budget, most = start + int(self._budget), start + self.most
        if last <= budget:
            return last
        ends = range(start + _LEAST, last - _LEAST + 1)
        marks = [end for end in ends if symbols[end - 1] in _MARKS]
        joints = [w.start - 1 for w in whole.words if w.text.lower() in JOINTS]
        joints = [end for end in joints if end in ends]
        for places in (marks, joints):
            if within := [end for end in places if end <= budget]:
                return within[-1]
        later = [end for end in (*marks, *joints) if end <= most]
        if later or last <= most:
            return min(later, default=last)
        space = symbols.rfind(_SPACE, start + 1, most)
        return most if space < 0 else space


def _part(whole: Spoken, start: int, end: int) -> Spoken:
    """Symbols start .. end, and the words that begin there."""
    words = tuple(
        word._replace(start=word.start - start, end=min(word.end, end) - start)
        for word in whole.words
        if start <= word.start < end
    )
    return Spoken(whole.symbols[start:end], words)
