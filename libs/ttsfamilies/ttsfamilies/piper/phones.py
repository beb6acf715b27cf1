"""From an utterance to the symbols of a voice's table, and the words that they are said with.

Three ways: characters, for voices that were trained on text; eSpeak NG, run as a program of its own
where it is installed; and for English the project's own frontend, in eSpeak's spelling.
"""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from shutil import which
from typing import Final, TypeAlias

from ttscommon.wire.errors import AntiphonError, NothingToSay
from ttsfamilies.base.text.frontend import PRIVATE, EnglishFrontend, Substitution, Utterance, Word
from ttsfamilies.piper.spelling import spelt_words

PROGRAM: Final = "espeak-ng"
_TIMEOUT_S: Final = 5.0
_MOST_CHARACTERS: Final = 2000
_REMEMBERED: Final = 4096
_CLAUSE: Final = re.compile(r"([^,.;:?!]*(?:[,.;:?!](?!\s|$)[^,.;:?!]*)*)([,.;:?!]*)\s*")
_SWITCH: Final = re.compile(r"\([a-z-]+\)")


@dataclass(frozen=True, slots=True)
class Sentence(Utterance):
    """An utterance in the symbols of a table; its words say which of those are theirs."""

    symbols: tuple[str, ...] = ()


Sentences: TypeAlias = Callable[[str, tuple[Substitution, ...]], Sentence]
"""Raises NothingToSay."""


class _Builder:
    """Symbols, and the words found in them."""

    def __init__(self) -> None:
        self.symbols: list[str] = []
        self.words: list[Word] = []

    def say(self, text: str, first: int, symbols: Sequence[str]) -> None:
        """A word as written, from character `first` of the utterance on."""
        start = len(self.symbols)
        self.symbols += symbols
        last = first + len(text)
        self.words.append(Word(text, start, len(self.symbols), text, first, last))

    def built(self) -> Sentence:
        if not any(c.isalnum() for word in self.words for c in word.text):
            raise NothingToSay("there is nothing to say", param="input")
        return Sentence((), tuple(self.words), (), tuple(self.symbols))


def _written(text: str, given: Sequence[Substitution]) -> Iterator[tuple[str, int]]:
    """Words with the place of each; given ones as they are read."""
    for match in re.finditer(r"\S+", text):
        yield PRIVATE.sub(lambda mark: _read(mark[0], given), match[0]), match.start()


def _read(mark: str, given: Sequence[Substitution]) -> str:
    index = ord(mark) - 0xE000
    return (given[index].alias or given[index].text) if index < len(given) else ""


def characters(text: str, given: tuple[Substitution, ...] = ()) -> Sentence:
    """Of voices trained on text: code points, composed characters taken apart."""
    builder = _Builder()
    for word, first in _written(text, given):
        if builder.symbols:
            builder.symbols.append(" ")
        builder.say(word, first, tuple(unicodedata.normalize("NFD", word)))
    return builder.built()


class Espeak:
    """The program, asked clause by clause: it has no say in what a clause is, nor in its marks."""

    def __init__(self, voice: str, program: str = PROGRAM) -> None:
        self._voice, self._program = voice, program
        self._clause = lru_cache(_REMEMBERED)(self._asked)

    @staticmethod
    def installed(program: str = PROGRAM) -> bool:
        return which(program) is not None

    def __call__(self, text: str, given: tuple[Substitution, ...] = ()) -> Sentence:
        builder = _Builder()
        written = list(_written(text, given))
        whole = " ".join(word for word, _ in written)
        at = 0
        for clause, marks in _CLAUSE.findall(whole):
            count = len(f"{clause}{marks}".split())
            words, at = written[at : at + count], at + count
            if any(c.isalnum() for c in clause):
                if builder.symbols:
                    builder.symbols.append(" ")
                self._say(builder, self._clause(clause.strip()), words)
            if builder.symbols and marks:
                builder.symbols.append(marks[0])
        return builder.built()

    @staticmethod
    def _say(builder: _Builder, said: str, words: Sequence[tuple[str, int]]) -> None:
        """A clause's phones among its words: one each, or in proportion where that is not so."""
        parts = said.split(" ")
        if len(parts) != len(words):
            parts = _shared(said, [len(word) for word, _ in words])
            for (word, first), part in zip(words, parts, strict=True):
                builder.say(word, first, tuple(part))
            return
        for index, ((word, first), part) in enumerate(zip(words, parts, strict=True)):
            if index:
                builder.symbols.append(" ")
            builder.say(word, first, tuple(part))

    def _asked(self, clause: str) -> str:
        try:
            done = subprocess.run(
                [self._program, "-q", "--ipa", "-v", self._voice, "--stdin"],
                input=clause[:_MOST_CHARACTERS].encode(),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise AntiphonError(f"{self._program} gives no phones: {error}") from error
        found = _SWITCH.sub("", done.stdout.decode("utf-8", "replace"))
        return unicodedata.normalize("NFD", " ".join(found.split()))


def _shared(said: str, lengths: Sequence[int]) -> list[str]:
    """A text cut in as many parts, as long as `lengths` in proportion."""
    whole, ends, at = sum(lengths), [0], 0
    for length in lengths:
        at += length
        ends.append(round(len(said) * at / whole))
    return [said[a:b] for a, b in pairwise(ends)]


class English:
    """The project's own frontend in eSpeak's spelling."""

    def __init__(self, frontend: EnglishFrontend, british: bool = False) -> None:
        self._frontend, self._british = frontend, british

    def __call__(self, text: str, given: tuple[Substitution, ...] = ()) -> Sentence:
        return spelt(self._frontend.phones(text, given, self._british))


def spelt(utterance: Utterance) -> Sentence:
    """An utterance in eSpeak's symbols, with its marks."""
    symbols: list[str] = []
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for owner, said, apart in spelt_words(utterance):
        if apart and symbols:
            symbols.append(" ")
        starts.setdefault(owner, len(symbols))
        symbols += said
        ends[owner] = len(symbols)
    words = tuple(
        word._replace(start=starts[index], end=ends[index])
        for index, word in enumerate(utterance.words)
    )
    return Sentence((), words, (), tuple(symbols))


def ids_of(
    sentence: Sentence, table: dict[str, list[int]], most: int
) -> Iterator[tuple[tuple[int, ...], tuple[Word, ...]]]:
    """Ids between the marks of a beginning and an end, a blank behind each symbol; in parts of at
    most `most` ids, cut between words where that is possible. Words by their ids.

    A symbol that is in no case in the table is left out, as the reference does.
    """
    blank, found = table["_"], [_ids(table, symbol) for symbol in sentence.symbols]
    room = most - len(table["^"]) - len(blank) - len(table["$"])
    at = 0
    while at < len(found):
        end = _end(sentence.symbols, found, at, room, len(blank))
        ids, begins = [*table["^"], *blank], list[int]()
        for symbol in found[at:end]:
            begins.append(len(ids))
            ids += [*symbol, *blank] if symbol else []
        begins.append(len(ids))
        yield (
            (*ids, *table["$"]),
            tuple(
                word._replace(start=begins[word.start - at], end=begins[min(word.end, end) - at])
                for word in sentence.words
                if at <= word.start < end
            ),
        )
        at = end


def _ids(table: dict[str, list[int]], symbol: str) -> list[int]:
    return table.get(symbol) or table.get(symbol.lower()) or []


def _end(symbols: Sequence[str], found: Sequence[list[int]], at: int, room: int, blank: int) -> int:
    """Where a part that begins at `at` ends: behind the last space that fits, or when full."""
    taken, space = 0, 0
    for index in range(at, len(found)):
        taken += len(found[index]) + blank if found[index] else 0
        if taken > room:
            return space or max(at + 1, index)
        if symbols[index] == " ":
            space = index + 1
    return len(found)
