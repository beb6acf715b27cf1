"""Words that a client wants to be read in its own way, and finding them in text as it comes.

A lexicon is applied here, where the text comes in: what reaches a talker, and its successor by way
of the log, are words with their readings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from ttscommon.wire.pieces import Alphabet, Phones, Piece, Text

MOST_WORDS: Final = 8
"""Of a grapheme, white space and marks counted: what decides on a word is near it."""

_TOKEN: Final = re.compile(r"\w+|[^\w\s]|\s+")
_APOSTROPHES: Final = "'’"
# Behind a word: "'s" and what shows that nothing follows it.
_BEHIND: Final = 3
_VOICELESS: Final = frozenset("ptkfθ")
_SIBILANT: Final = frozenset("szʃʒʧʤ")
_ARPABET_SIBILANT: Final = frozenset({"s", "z", "sh", "zh", "ch", "jh"})
_ARPABET_VOICELESS: Final = frozenset({"p", "t", "k", "f", "th"})
_COMPILED: Final = 64
_SLICE: Final = 128


class LexiconEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A spelling, and what is said for it: other words (`alias`), or phones."""

    grapheme: str
    alias: str = ""
    phones: str = ""
    alphabet: Alphabet = "ipa"


def words_of(grapheme: str) -> int:
    """How many words, gaps and marks a spelling has; at most MOST_WORDS can be found."""
    return len(_TOKEN.findall(grapheme))


class ClientLexicon:
    """Entries by their spellings. One in lower case means any case, others are exact."""

    def __init__(self, entries: Iterable[LexiconEntry]) -> None:
        self._exact: dict[str, LexiconEntry] = {}
        self._any_case: dict[str, LexiconEntry] = {}
        self.beginnings: set[str] = set()
        self.phonetic = False
        for entry in entries:
            key = " ".join(entry.grapheme.split())
            table = self._any_case if key == key.lower() else self._exact
            table.setdefault(key, entry)
            self.phonetic = self.phonetic or bool(entry.phones)
            self._begin(key.lower())

    def find(self, words: str) -> LexiconEntry | None:
        """The entry of these words, white space as single spaces."""
        return self._exact.get(words) or self._any_case.get(words.lower())

    def _begin(self, key: str) -> None:
        beginning = ""
        for token in _TOKEN.findall(key):
            beginning += token
            self.beginnings.add(beginning)


_decoder: Final = msgspec.msgpack.Decoder(list[LexiconEntry])


def packed(entries: Sequence[LexiconEntry]) -> bytes:
    """Entries as they are stored."""
    return msgspec.msgpack.encode(entries)


def unpacked(content: bytes) -> list[LexiconEntry]:
    """Stored entries; raises msgspec.MsgspecError."""
    return _decoder.decode(content)


@lru_cache(_COMPILED)
def compiled(content: bytes) -> ClientLexicon:
    """The lexicon of stored entries; raises msgspec.MsgspecError."""
    return ClientLexicon(unpacked(content))


class _Found(NamedTuple):
    """An entry for characters start .. end; "'s" stands behind it where `possessive`."""

    entry: LexiconEntry
    start: int
    end: int
    possessive: bool


def slices(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same pieces, texts in parts that are looked through within a few milliseconds."""
    for piece in pieces:
        if not isinstance(piece, Text):
            yield piece
            continue
        for start in range(0, len(piece.text), _SLICE):
            yield from _cut([piece], start, start + _SLICE)


class LexiconMatcher:
    """Finds entries of lexicons in one text; earlier lexicons take precedence.

    The result does not depend on where the text was cut. It holds back what may be the beginning of
    an entry: a word that may grow, and as many words behind it as an entry has.
    """

    def __init__(self, lexicons: Sequence[ClientLexicon]) -> None:
        self._lexicons = lexicons
        self._held: list[Text] = []
        self._before = " "

    def feed(self, pieces: Iterable[Piece], *, final: bool = False) -> list[Piece]:
        """Take pieces; returns those that are certain now."""
        found: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Text):
                self._held.append(piece)
            else:
                found += [*self._read(final=True), piece]
                self._before = " "
        return found + self._read(final=final)

    def _read(self, *, final: bool) -> list[Piece]:
        text = "".join(piece.text for piece in self._held)
        pieces: list[Piece] = []
        position = 0
        scan = _Scan(self._lexicons, self._before, text, final)
        for found in scan.entries():
            pieces += _cut(self._held, position, found.start)
            pieces.append(_phones(found, text, _cut(self._held, found.start, found.end)[0]))
            position = found.end
        pieces += _cut(self._held, position, scan.certain)
        self._before = (self._before + text[: scan.certain])[-2:]
        self._held = _cut(self._held, scan.certain, len(text))
        return pieces


class _Scan:
    """Entries in a text, from left to right. `certain`: how far what follows changes nothing."""

    def __init__(
        self, lexicons: Sequence[ClientLexicon], before: str, text: str, final: bool
    ) -> None:
        self._lexicons, self._before, self._text, self._final = lexicons, before, text, final
        self._tokens = list(_TOKEN.finditer(text))
        self.certain = len(text)

    def entries(self) -> Iterator[_Found]:
        index = 0
        while index < len(self._tokens):
            start = self._tokens[index].start()
            found, undecided = self._at(index)
            if undecided:
                self.certain = start
                return
            if found is not None:
                yield found
                while index < len(self._tokens) and self._tokens[index].start() < found.end:
                    index += 1
            else:
                index += 1

    def _at(self, index: int) -> tuple[_Found | None, bool]:
        """The longest entry that begins with a token, and whether more text may change that."""
        best: _Found | None = None
        words = ""
        start = self._tokens[index].start()
        for at in range(index, len(self._tokens)):  # a slice would copy all that follows
            token = self._tokens[at]
            if not self._complete(token):
                return None, True
            words += " " if token[0].isspace() else token[0]
            if not any(words.lower() in one.beginnings for one in self._lexicons):
                return best, False
            if (entry := self._entry(words)) is None or not self._begins(start, words):
                continue
            if not self._final and len(self._text) < token.end() + _BEHIND:
                return None, True
            if (possessive := self._possessive(token.end())) is not None:
                best = _Found(entry, start, token.end() + 2 * possessive, bool(possessive))
        return best, not self._final

    def _complete(self, token: re.Match[str]) -> bool:
        return self._final or token.end() < len(self._text) or not token[0][-1].isalnum()

    def _entry(self, words: str) -> LexiconEntry | None:
        return next((e for one in self._lexicons if (e := one.find(words)) is not None), None)

    def _begins(self, start: int, words: str) -> bool:
        """Whether a word begins here, rather than the "t" of "don't" or the ".net" of "asp.net"."""
        before = (self._before + self._text[max(0, start - 2) : start])[-2:]
        if before[-1] in _APOSTROPHES:
            return not before[0].isalnum()
        return words[0].isalnum() or not before[-1].isalnum()

    def _possessive(self, end: int) -> int | None:
        """1 where "'s" follows, None where the word goes on behind an apostrophe."""
        behind = self._text[end : end + _BEHIND]
        if behind[:1] not in _APOSTROPHES or not behind[1:2].isalnum():
            return 0
        return 1 if behind[1] in "sS" and not behind[2:3].isalnum() else None


def _cut(texts: Sequence[Text], start: int, end: int) -> list[Text]:
    """Characters start .. end of texts that follow each other."""
    found = []
    for text in texts:
        first, last = max(0, start), min(len(text.text), end)
        if first < last:
            source = text.source + first if text.source >= 0 else -1
            found.append(Text(text.text[first:last], source, text.rate))
        start, end = start - len(text.text), end - len(text.text)
    return found


def _phones(found: _Found, text: str, first: Text) -> Phones:
    entry, written = found.entry, text[found.start : found.end]
    ending = ("'s" if entry.alias else _ending(entry)) if found.possessive else ""
    placed = (first.source, first.rate)
    if entry.alias:
        return Phones(written, "", "model", True, entry.alias + ending, "", "", *placed)
    return Phones(written, entry.phones + ending, entry.alphabet, True, "", "", "", *placed)


def _ending(entry: LexiconEntry) -> str:
    """How "'s" is said behind the phones of an entry."""
    if entry.alphabet == "ipa":
        last = entry.phones.rstrip(" .ː")[-1:]
        return "ɪz" if last in _SIBILANT else "s" if last in _VOICELESS else "z"
    last = entry.phones.lower().split()[-1]
    return " ih0 z" if last in _ARPABET_SIBILANT else " s" if last in _ARPABET_VOICELESS else " z"
