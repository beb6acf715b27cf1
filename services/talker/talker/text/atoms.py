"""Split text into atoms: bare tokens, and the stretches that a pattern says as a whole."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from talker.text.cleanup import clean
from talker.text.dates import DATES, YEARS
from talker.text.money import MONEY
from talker.text.names import NAMES
from talker.text.quantities import AMOUNTS, LABELS, NUMBERS
from talker.text.rules import Rule

_NUMERIC: tuple[Rule, ...] = (*LABELS, *DATES, *MONEY, *AMOUNTS, *YEARS, *NUMBERS)
_TAKEN = "\x00"
_OUTER = "\"'`.,:;!?()[]{}<>*_~|\\^-/=+#%$&@€£¥₹¢"
_HAS_NAME = re.compile(r"[@#<]|://|\]\(|www\.|[a-z0-9]\.[a-z]{2}", re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")
_BARE = re.compile(r"[^ \x00]+")


@dataclass(frozen=True, slots=True)
class Atom:
    """Part of one written token (`first` == `last`), or several tokens said together.

    `said` is what a pattern made of it, None for a bare token. `core` is the text without outer
    punctuation, `tail` the punctuation behind it.
    """

    first: int
    last: int
    text: str
    core: str
    tail: str
    said: tuple[str, ...] | None

    @property
    def numeric(self) -> bool:
        return self.said is not None and _DIGIT.search(self.text) is not None


NOTHING = Atom(-1, -1, "", "", "", None)


def atoms(tokens: list[str]) -> list[Atom]:
    """All atoms of white-space separated tokens, in order."""
    line, starts, owners = _line(tokens)
    found = []
    for start, end, said in _stretches(line):
        text = line[start:end]
        core = text.strip(_OUTER) if said is None else text
        tail = text[len(text.rstrip(_OUTER)) :] if said is None else ""
        first = owners[bisect_right(starts, start) - 1]
        last = owners[bisect_right(starts, end - 1) - 1]
        found.append(Atom(first, last, text, core, tail, said))
    return found


def _line(tokens: list[str]) -> tuple[str, list[int], list[int]]:
    """The cleaned tokens joined by spaces, where each starts, and which token it is."""
    parts, starts, owners = [], [], []
    position = 0
    for index, token in enumerate(tokens):
        cleaned = " ".join(clean(token).split())
        if cleaned:
            parts.append(cleaned)
            starts.append(position)
            owners.append(index)
            position += len(cleaned) + 1
    return " ".join(parts), starts, owners


def _stretches(line: str) -> Iterator[tuple[int, int, tuple[str, ...] | None]]:
    """(start, end, said) from left to right; earlier rules take precedence over later ones."""
    taken: list[tuple[int, int, tuple[str, ...] | None]] = []
    names = NAMES if _HAS_NAME.search(line) else ()
    numeric = _NUMERIC if _DIGIT.search(line) else ()
    rest = line
    for pattern, say in (*names, *numeric):
        matches = [match for match in pattern.finditer(rest) if match.end() > match.start()]
        if not matches:
            continue
        pieces = []
        position = 0
        for match in matches:
            taken.append((match.start(), match.end(), tuple(say(match))))
            pieces += [rest[position : match.start()], _TAKEN * (match.end() - match.start())]
            position = match.end()
        rest = "".join((*pieces, rest[position:]))
    taken += [(match.start(), match.end(), None) for match in _BARE.finditer(rest)]
    return iter(sorted(taken, key=lambda stretch: stretch[0]))
