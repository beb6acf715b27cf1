"""Written English to spoken words, token by token, keeping track of which came from which."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ttsfamilies.base.text import context, numbers
from ttsfamilies.base.text.atoms import Atom, atoms
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import PAUSE_MARK
from ttsfamilies.base.text.words import WordReader

__all__ = ["PAUSE_MARK", "Normalizer", "Written"]

_BREAKING = frozenset(",.;:!?()[]{}|")
_TELLING_MARKS = "?!.;:"
_DASH = "—"
_DASHES = re.compile(r"-+")
_PARTS = re.compile(r"([,;:!?()\[\]{}\"<>|]+|\.{2,}|--+|(?<=[a-z])\.(?=[A-Z][a-z]))")
# A bar stands between the cells of a table, and is no part of them.
_TOKEN = re.compile(r"[^\s|]+|\|")
_SHOUTED_SHARE = 0.6
_SHOUTED_LETTERS = 8


@dataclass(frozen=True, slots=True)
class Written:
    """A word as written, how it is said, and whether a phrase ends with it.

    `spoken` holds words of the lexicon and PAUSE_MARK; it is never empty. `mark` is the
    punctuation that ends the phrase: one of `? ! . ; : , —`, "" where none does. It is the
    characters start .. end of its text.
    """

    text: str
    spoken: tuple[str, ...]
    mark: str
    start: int
    end: int


@dataclass(slots=True)
class _Group:
    """Written tokens that are said together, `first` to `last`."""

    first: int
    last: int
    spoken: list[str] = field(default_factory=list)
    mark: str = ""


class Normalizer:
    """Stateless; `knows` says whether a lower-case word is on record."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._reader = WordReader(knows)

    def words(self, text: str, british: bool = False) -> list[Written]:
        """What is said, in order. Tokens with nothing to say (emoji, lone marks) are left out.

        british: the day comes first in 3/4/2024, and numbers are "one hundred and five".

        Never raises; takes time linear in the length of the text.
        """
        text = text.rstrip(" |")
        places = [match.span() for match in _TOKEN.finditer(text)]
        tokens = [text[start:end] for start, end in places]
        found = atoms(tokens, day_first=british)
        shouting = _is_shouted(found)
        groups: list[_Group] = []
        for index, atom in enumerate(found):
            if not groups or atom.first > groups[-1].last:
                groups.append(_Group(atom.first, atom.last))
            group = groups[-1]
            group.last = max(group.last, atom.last)
            if group.spoken and group.mark == _DASH:
                group.spoken.append(PAUSE_MARK)
            if atom.said is None:
                self._bare(found, index, shouting, group)
            elif atom.said:
                words = [*self._expanded(atom.said)]
                group.spoken += numbers.british(words) if british and atom.numeric else words
                group.mark = ""
        if "\t" in text:
            _end_cells(text, places, groups)
        return list(_written(tokens, places, groups))

    def _bare(self, found: Sequence[Atom], index: int, shouting: bool, group: _Group) -> None:
        atom = found[index]
        words = context.reading(found, index)
        tail = atom.tail
        if tail.startswith(".") and context.dot_belongs(found, index, words):
            tail = tail[1:]
        group.spoken += self._read(atom.core, shouting) if words is None else words
        standing_dash = not words and _DASHES.fullmatch(atom.text) is not None
        group.mark = _DASH if standing_dash else _mark(tail)

    def _read(self, core: str, shouting: bool) -> list[str]:
        words: list[str] = []
        for number, part in enumerate(_PARTS.split(core)):
            if number % 2:
                words.append(PAUSE_MARK)
            else:
                words += self._reader.read(part, shouting)
        return words

    def _expanded(self, said: Sequence[str]) -> Iterator[str]:
        for word in said:
            if not word.startswith(RAW):
                yield word
            elif word[1:].isdigit():
                yield from numbers.label(word[1:])
            else:
                yield from self._reader.read(word[1:])


def _is_shouted(found: Sequence[Atom]) -> bool:
    """Whether capitals are the rule in a text, and so say nothing about a single word."""
    letters = capitals = words = 0
    for atom in found:
        if atom.said is None and atom.core:
            letters += sum(map(str.isalpha, atom.core))
            capitals += sum(map(str.isupper, atom.core))
            words += 1
    return words > 1 and letters >= _SHOUTED_LETTERS and capitals > _SHOUTED_SHARE * letters


def _end_cells(text: str, places: Sequence[tuple[int, int]], groups: Sequence[_Group]) -> None:
    """A phrase ends with each group that a tab follows."""
    for group, following in pairwise(groups):
        if "\t" in text[places[group.last][1] : places[following.first][0]]:
            group.mark = group.mark or PAUSE_MARK


def _written(
    tokens: Sequence[str], places: Sequence[tuple[int, int]], groups: Sequence[_Group]
) -> Iterator[Written]:
    """Groups with something to say; a mark standing alone breaks the phrase before it."""
    for index, group in enumerate(groups):
        if all(word == PAUSE_MARK for word in group.spoken):
            continue
        following = groups[index + 1] if index + 1 < len(groups) else None
        lone = following.mark if following is not None and not following.spoken else ""
        text = " ".join(tokens[group.first : group.last + 1])
        start, end = places[group.first][0], places[group.last][1]
        yield Written(text, tuple(group.spoken), group.mark or lone, start, end)


def _mark(tail: str) -> str:
    """The most telling mark of the punctuation behind a word, "" if it breaks no phrase."""
    if _BREAKING.isdisjoint(tail):
        return ""
    return next((mark for mark in _TELLING_MARKS if mark in tail), ",")
