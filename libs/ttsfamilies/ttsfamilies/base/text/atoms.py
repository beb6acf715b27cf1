"""Split text into atoms: bare tokens, and what a pattern says as a whole."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ttsfamilies.base.text import codes, dates, maths, measures, quantities, times
from ttsfamilies.base.text.cleanup import clean
from ttsfamilies.base.text.maths import FORMULAS
from ttsfamilies.base.text.money import MONEY, SIGNS
from ttsfamilies.base.text.names import ADDRESSES, NAMES
from ttsfamilies.base.text.numbers import ROMANS
from ttsfamilies.base.text.rules import Rule

_TAKEN = "\x00"
_OUTER = "\"'`.,:;!?()[]{}<>*_~|\\^-/=+#%$&@€£¥₹¢₩₿₽₺₪₫₱฿₦₴★☆"
_HAS_NAME = re.compile(
    r"[@#<\[/\\]|[a-z]\$|www\.|localhost|[A-Za-z0-9]\.[A-Za-z]{2}", re.IGNORECASE
)
_DIGIT = re.compile(r"[0-9]")
_BARE = re.compile(r"[^ \x00]+")


def _flat(*kinds: tuple[str, tuple[Rule, ...]]) -> tuple[tuple[str, Rule], ...]:
    """The rules of kinds of text, such as "money"; earlier ones take precedence."""
    return tuple((kind, rule) for kind, rules in kinds for rule in rules)


def _before_powers(day_first: bool) -> tuple[tuple[str, Rule], ...]:
    """Kinds that need a digit, in order of precedence, as far as units may have powers."""
    return _flat(
        ("address", ADDRESSES),
        ("telephone", codes.TELEPHONES),
        ("code", codes.LABELS),
        ("maths", maths.MATHS),
        ("date", dates.dates(day_first)),
        ("code", codes.GROUPS),
        ("time", times.TIMES),
        ("money", MONEY),
        ("measure", measures.MEASURES),
    )


_NAMES = _flat(("electronic", NAMES))
_WORDS = _flat(
    ("date", dates.SPANS),
    ("roman", ROMANS),
    ("code", FORMULAS),
    ("maths", maths.EQUATIONS),
    ("measure", measures.STARS),
    ("money", SIGNS),
)
_NUMERIC = {day_first: _before_powers(day_first) for day_first in (False, True)}
_POWERS = _flat(("maths", maths.POWERS))
_PLAIN = _flat(
    ("date", dates.YEARS),
    ("fraction", quantities.FRACTIONS),
    ("number", quantities.NUMBERS),
)


@dataclass(frozen=True, slots=True)
class Atom:
    """Part of one written token (`first` == `last`), or several tokens said together.

    `said` is what a pattern made of it, None for a bare token, and `kind` what it is then.
    `core` is the text without outer punctuation, `tail` the punctuation behind it. `start` and
    `end` are its place in the cleaned line: atoms without a space between them touch.
    """

    first: int
    last: int
    text: str
    core: str
    tail: str
    said: tuple[str, ...] | None
    kind: str = ""
    start: int = -1
    end: int = -1

    @property
    def numeric(self) -> bool:
        return self.said is not None and _DIGIT.search(self.text) is not None


class _Match(NamedTuple):
    start: int
    end: int
    said: tuple[str, ...] | None
    kind: str


NOTHING = Atom(-1, -1, "", "", "", None)


def atoms(tokens: list[str], day_first: bool = False) -> list[Atom]:
    """All atoms of white-space separated tokens, in order.

    day_first: whether 3/4 is the third of April.
    """
    line, starts, owners = _line(tokens)
    found = []
    for start, end, said, kind in _matches(line, day_first):
        text = line[start:end]
        core = text.strip(_OUTER) if said is None else text
        tail = text[len(text.rstrip(_OUTER)) :] if said is None else ""
        first = owners[bisect_right(starts, start) - 1]
        last = owners[bisect_right(starts, end - 1) - 1]
        found.append(Atom(first, last, text, core, tail, said, kind, start, end))
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


def _matches(line: str, day_first: bool) -> Iterator[_Match]:
    """Matches from left to right; earlier rules take precedence over later ones."""
    names = _NAMES if _HAS_NAME.search(line) else ()
    numeric, plain = (_NUMERIC[day_first], _PLAIN) if _DIGIT.search(line) else ((), ())
    present = set(line)
    taken: list[_Match] = []
    rest = line
    for rules in (names, _WORDS, numeric, _POWERS, plain):
        for kind, rule in rules:
            if (not rule.needs or not present.isdisjoint(rule.needs)) and rule.literal in line:
                rest = _take(rest, kind, rule, taken)
    taken += [_Match(m.start(), m.end(), None, "") for m in _BARE.finditer(rest)]
    return iter(sorted(taken, key=lambda match: match.start))


def _take(rest: str, kind: str, rule: Rule, taken: list[_Match]) -> str:
    """Add what a rule finds; returns the line without it."""
    pieces = []
    position = 0
    for match in rule.pattern.finditer(rest):
        start, end = match.span()
        said = rule.say(match) if end > start else None
        if said is None:
            continue
        taken.append(_Match(start, end, tuple(said), kind))
        pieces += [rest[position:start], _TAKEN * (end - start)]
        position = end
    return "".join((*pieces, rest[position:])) if pieces else rest
