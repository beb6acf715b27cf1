"""Utterances cut where a person would breathe, for models that speak whole segments.

Nothing of a segment is heard before all of it is computed. So the first is short, and each may be
half as long again as the one before it, in whose time it is computed. Where a cut falls follows
from the text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from talker.text.misaki import TOKENS, Tokens, part
from talker.text.segment import JOINTS

_MARKS: Final = frozenset(TOKENS[mark] for mark in ";:,.!?—")
_SPACE: Final = TOKENS[" "]
# Fewer are spoken badly by themselves, as users of Kokoro say.
_LEAST: Final = 12


@dataclass
class Breaths:
    """Tokens of a segment: of the first one, by how much they may grow, and of any."""

    first: int = 48
    growth: float = 1.5
    most: int = 160

    def __post_init__(self) -> None:
        self._budget = float(self.first)

    def cut(self, tokens: Tokens) -> Iterator[Tokens]:
        """The segments of an utterance, in order, with silence at both ends of each."""
        start, last = 1, len(tokens.ids) - 1
        while start < last:
            end = self._end(tokens, start, last)
            yield part(tokens, start, end)
            self._budget = min(self._budget * self.growth, float(self.most))
            start = end + (end < last and tokens.ids[end] == _SPACE)

    def _end(self, tokens: Tokens, start: int, last: int) -> int:
        """Behind the last mark that the budget has room for, or before the last joining word; where
        it has neither, at the first of them behind it; at a space where a segment can be no longer.
        """
        budget, most = start + int(self._budget), start + self.most
        if last <= budget:
            return last
        marks = [i + 1 for i in range(start, last) if tokens.ids[i] in _MARKS]
        joints = [w.start - 1 for w in tokens.words if w.text.lower() in JOINTS]
        for places in (marks, joints):
            if within := [i for i in places if start + _LEAST <= i <= budget and _leaves(i, last)]:
                return within[-1]
        later = [i for i in (*marks, *joints) if budget < i <= most and _leaves(i, last)]
        if later or last <= most:
            return min(later, default=last)
        spaces = [i for i in range(start + 1, most) if tokens.ids[i] == _SPACE]
        return spaces[-1] if spaces else most


def _leaves(end: int, last: int) -> bool:
    """Whether what follows is worth a segment."""
    return last - end >= _LEAST
