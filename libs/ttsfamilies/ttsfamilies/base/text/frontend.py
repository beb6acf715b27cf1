"""The English frontend: an utterance in, phones with word boundaries out.

For models that speak whole segments, utterances are cut where a person would breathe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.pieces import Phones
from ttsfamilies.base.text import ipa
from ttsfamilies.base.text.ipa import PAUSE, SYMBOL_IDS, Phone
from ttsfamilies.base.text.lexicon import Lexicon, post_lexical
from ttsfamilies.base.text.normalize import PAUSE_MARK, Normalizer
from ttsfamilies.base.text.sayas import say_as
from ttsfamilies.base.text.segment import JOINTS

_PAUSE = Phone(PAUSE, -1, False)

# A word whose phones were given stands in its text as one character that no text may hold itself.
PRIVATE = re.compile("[\ue000-\uf8ff]")
MOST_GIVEN = 0xF8FF - 0xE000
# The punctuation behind it.
_MARK = re.compile(r"\s*([?!.;:,—])(?![0-9])")


class Word(NamedTuple):
    """A word as written, punctuation included; its phones are `phones[start:end]`.

    spoken: the words that it is read as. It is the characters first .. last of its utterance's
    text; behind the reader of the text that the client sent, -1 where that is not known. rate: how
    many times as fast as the request it is spoken.
    """

    text: str
    start: int
    end: int
    spoken: str = ""
    first: int = -1
    last: int = -1
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the talker says: phones from pause to pause, and the written words they belong to.

    `Phone.word` indexes `words`. A written word may be said as several ("2024"); each of those
    begins with an initial phone. `marks` are the punctuation that the pauses stand for, the first
    pause aside: one of `? ! . ; : , —`, or "" at the end of a text that has none.
    """

    phones: tuple[Phone, ...]
    words: tuple[Word, ...]
    marks: tuple[str, ...] = ()


class Substitution(NamedTuple):
    """A word as written, and its phones or what is read in its place; see ttscommon's Phones."""

    text: str
    phones: tuple[str, ...] = ()
    alias: str = ""
    kind: str = ""
    form: str = ""

    @classmethod
    def parse(cls, piece: Phones) -> Substitution:
        """Phones as "t ah0 m ey1 t ow0", in any case, or in IPA; raises BadRequest for others."""
        if not piece.phones and (piece.alias or piece.kind):
            return cls(piece.text, (), piece.alias, piece.kind, piece.form)
        if piece.alphabet == "ipa":
            phones = ipa.phones_of(piece.phones)
        else:
            phones = piece.phones.lower().split()
        if not phones:
            raise BadRequest("there is no phone", param="phones")
        return cls(piece.text, tuple(_symbol(phone) for phone in phones))


def marker(index: int) -> str:
    """What stands in the text for the given word `index`, below MOST_GIVEN."""
    return chr(0xE000 + index)


def _trimmed(words: Sequence[str]) -> list[str]:
    """Without breaks at its ends: those belong to what stands around it."""
    kept = [index for index, word in enumerate(words) if word != PAUSE_MARK]
    return list(words[kept[0] : kept[-1] + 1]) if kept else []


def _symbol(phone: str) -> str:
    for symbol in (phone, phone.replace("2", "1"), f"{phone}0"):
        if symbol in SYMBOL_IDS and symbol != PAUSE:
            return symbol
    raise BadRequest(f"there is no phone {phone!r}", param="phones")


class EnglishFrontend:
    """Deterministic, without state but for caches of what was looked up."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._normalizer = Normalizer(lexicon.knows)

    @classmethod
    def load(cls, voice_dir: Path) -> EnglishFrontend:
        """Read the voice's lexicon. Raises ttsfamilies.base.text.lexicon.LexiconError."""
        return cls(Lexicon.load(voice_dir))

    def phones(
        self, utterance: str, given: Sequence[Substitution] = (), british: bool = False
    ) -> Utterance:
        """Phones of one utterance, in which `marker(i)` stands for the word `given[i]`.

        british: read dates and numbers as in Britain; see Normalizer.words.

        Raises NothingToSay when no word is in it, nothing else.
        """
        builder = _Builder(self._lexicon)
        start = 0
        for match in PRIVATE.finditer(utterance):
            self._read(utterance[start : match.start()], start, builder, british)
            start = match.end()
            if (index := ord(match[0]) - 0xE000) < len(given):
                mark = _MARK.match(utterance, start)
                words = self._words_of(given[index], british)
                builder.say_given(given[index], words, mark[1] if mark else "", match.start())
                start = mark.end() if mark else start
        self._read(utterance[start:], start, builder, british)
        return builder.build()

    def _read(self, text: str, base: int, builder: _Builder, british: bool) -> None:
        """base: where `text` begins in its utterance."""
        for written in self._normalizer.words(text, british):
            builder.say_all(written.spoken, written.text, base + written.start, base + written.end)
            if written.mark:
                builder.pause(written.mark)

    def _words_of(self, given: Substitution, british: bool) -> Sequence[str]:
        """What is said for a given word: one word where its phones are known."""
        if given.phones:
            return (given.text.lower(),)

        def read(text: str) -> list[str]:
            found = self._normalizer.words(text, british)
            return [word for one in found for word in (*one.spoken, *((",",) if one.mark else ()))]

        said = say_as(given.text, given.kind, given.form, read) if given.kind else None
        return _trimmed(said or read(given.alias) or read(given.text))


class _Builder:
    """Collects spoken words, phrase by phrase."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._spoken: list[str] = []
        self._owners: list[int] = []
        self._breaks: dict[int, str] = {}
        self._texts: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._given: dict[int, tuple[str, ...]] = {}
        self._open = False

    def say_all(self, words: Sequence[str], text: str, first: int, last: int) -> None:
        """The words that characters first .. last are read as, short breaks among them."""
        for word in words:
            if word == PAUSE_MARK:
                self.pause(PAUSE_MARK)
                continue
            if not self._open:
                self._texts.append(text)
                self._places.append((first, last))
                self._open = True
            self._spoken.append(word)
            self._owners.append(len(self._texts) - 1)
        self._open = False

    def say_given(self, given: Substitution, words: Sequence[str], mark: str, at: int) -> None:
        if given.phones:
            self._given[len(self._spoken)] = given.phones
        self.say_all(words, given.text and given.text + mark, at, at + 1)
        if mark:
            self.pause(mark)

    def pause(self, mark: str) -> None:
        self._breaks[len(self._spoken)] = mark

    def build(self) -> Utterance:
        if not self._spoken:
            raise NothingToSay("the text holds no word that can be spoken", param="input")
        phones = [_PAUSE]
        marks: list[str] = []
        spans: dict[int, tuple[int, int]] = {}
        start = 0
        for end in sorted({*self._breaks, len(self._spoken)}):
            for index, symbols in enumerate(self._phrase(start, end), start):
                owner = self._owners[index]
                first = spans.get(owner, (len(phones), 0))[0]
                begins = not self._spoken[index].startswith("'")
                phones += [Phone(s, owner, begins and n == 0) for n, s in enumerate(symbols)]
                spans[owner] = (first, len(phones))
            if end > start:
                phones.append(_PAUSE)
                marks.append(self._breaks.get(end, ""))
            start = end
        spoken = self._spoken_forms()
        words = tuple(
            Word(self._texts[owner], *span, spoken[owner], *self._places[owner])
            for owner, span in spans.items()
        )
        return Utterance(tuple(phones), words, tuple(marks))

    def _spoken_forms(self) -> list[str]:
        """What each written word is read as, in words."""
        forms = [""] * len(self._texts)
        for owner, word in zip(self._owners, self._spoken, strict=True):
            gap = "" if word.startswith("'") or not forms[owner] else " "
            # The lexicon marks the letter "_a" and readings that a word's own spelling decided.
            forms[owner] += gap + word.removeprefix("_")
        return forms

    def _phrase(self, start: int, end: int) -> list[tuple[str, ...]]:
        phones = [
            self._given.get(index)
            or self._lexicon.phones(self._spoken, index, last=index == end - 1)
            for index in range(start, end)
        ]
        joined = post_lexical(self._spoken[start:end], phones)
        return [self._given.get(index, found) for index, found in enumerate(joined, start)]


# Utterances cut where a person would breathe, for models that speak whole segments.
#
# Nothing of a segment is heard before all of it is computed. So the first is short, and each may
# be half as long again as the one before it, in whose time it is computed. Where a cut falls
# follows from the text alone.


_MARKS: Final = frozenset(";:,.!?—…")
_SPACE: Final = " "
# Fewer are spoken badly by themselves, as users of Kokoro say.
_LEAST: Final = 12
# Symbols of the first segment and of any, and by how much they may grow.
_FIRST, _MOST, _GROWTH = 48.0, 160.0, 1.5


class Spoken(NamedTuple):
    """Phones, each a character, with spaces between words and marks behind them; and the words."""

    symbols: str
    words: tuple[Word, ...]


class Breaths:
    """Of one text, utterance by utterance."""

    def __init__(self) -> None:
        self._budget = _FIRST

    def cut(self, whole: Spoken) -> Iterator[Spoken]:
        """The segments of an utterance, in order."""
        start, last = 0, len(whole.symbols)
        while start < last:
            end = self._end(whole, start)
            yield Spoken(whole.symbols[start:end], cut_words(whole.words, start, end, start))
            self._budget = min(self._budget * _GROWTH, _MOST)
            start = end + (end < last and whole.symbols[end] == _SPACE)

    def _end(self, whole: Spoken, start: int) -> int:
        """Behind the last mark that the budget has room for, or before the last joining word; where
        it has neither, at the first of them behind it; at a space where a segment can be no longer.
        """
        symbols, last = whole.symbols, len(whole.symbols)
        budget, most = start + int(self._budget), start + int(_MOST)
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


def cut_words(words: Sequence[Word], start: int, end: int, base: int) -> tuple[Word, ...]:
    """Those that begin from start to end, counted from `base`."""
    return tuple(
        word._replace(start=word.start - base, end=min(word.end, end) - base)
        for word in words
        if start <= word.start < end
    )
