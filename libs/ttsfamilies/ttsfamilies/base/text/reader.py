"""From typed pieces of text to utterances and pauses, as the text arrives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.text.frontend import (
    MOST_GIVEN,
    PRIVATE,
    Substitution,
    Utterance,
    Word,
    marker,
)
from ttsfamilies.base.text.segment import Cut, Segmenter

# A table's cells stay apart; see Normalizer.
_ONE_LINE: Final = {ord("\n"): " "}

Phonetise: TypeAlias = Callable[[str, tuple[Substitution, ...]], Utterance]


class _Place(NamedTuple):
    """What holds from a character that the segmenter was fed on: see ttscommon's Span.

    width: this one character stands for so many of the client's.
    """

    at: int
    source: int
    rate: float
    width: int = 0


class _Places:
    """Where everything that the segmenter was fed comes from."""

    def __init__(self) -> None:
        self._places: list[_Place] = []

    def add(self, place: _Place) -> None:
        if not self._places or not self._goes_on(self._places[-1], place):
            self._places.append(place)

    def forget(self, before: int) -> None:
        """Nothing before this will be asked for again."""
        del self._places[: max(0, self._index(before))]

    def placed(self, word: Word, base: int) -> Word:
        """A word of an utterance that begins at `base`, as the client knows it."""
        if word.first < 0:
            return word
        first = self._places[self._index(base + word.first)]
        last = self._places[self._index(base + word.last - 1)]
        if first.source < 0 or last.source < 0:
            return word._replace(first=-1, last=-1, rate=first.rate)
        end = last.source + (last.width or base + word.last - last.at)
        return word._replace(
            first=first.source + (0 if first.width else base + word.first - first.at),
            last=end,
            rate=first.rate,
        )

    def _index(self, position: int) -> int:
        return bisect_right(self._places, position, key=lambda place: place.at) - 1

    @staticmethod
    def _goes_on(last: _Place, place: _Place) -> bool:
        known = place.source >= 0 and last.source >= 0
        follows = not known or last.source + place.at - last.at == place.source
        alike = (place.source < 0) == (last.source < 0) and place.rate == last.rate
        return alike and follows and not (place.width or last.width)


def utterances_of(text: str, phones: Phonetise) -> Iterator[Utterance]:
    """A whole text, without its pauses; raises NothingToSay."""
    for found in Reader(phones).read([Text(text, 0)], final=True):
        if not isinstance(found, Pause):
            yield found


class Reader:
    """Reads the text of one request; used by one caller at a time.

    paragraph_s: silence in front of each paragraph but the first, beside what utterances end with;
    for models that are told so much. segmenter: where its utterances end.
    """

    def __init__(
        self,
        phones: Phonetise,
        paragraph_s: float = 0.0,
        segmenter: Segmenter | None = None,
    ) -> None:
        self._phones = phones
        self._paragraph_s = paragraph_s
        self._paragraph = False  # one ended since the last utterance
        self._places = _Places()
        self._fed = 0
        self._segmenter = segmenter or Segmenter()
        self._given: list[Substitution] = []
        self._spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Utterance | Pause]:
        """What is certain after these pieces: utterances, and the pauses that stand in the text or
        in front of paragraphs.

        Raises NothingToSay if the text ends and nothing in it could be spoken.
        """
        for piece in pieces:
            yield from self._piece(piece)
        if final:
            yield from self._utterances(self._segmenter.cuts("", final=True))
            if not self._spoken:
                raise NothingToSay("the text holds nothing that can be spoken", param="input")

    def _piece(self, piece: Piece) -> Iterator[Utterance | Pause]:
        match piece:
            case Text(text, source, rate):
                self._places.add(_Place(self._fed, source, rate))
                yield from self._feed(PRIVATE.sub(" ", text))
            case Phones():
                read = self._pronounced(piece)
                width = len(piece.text) if PRIVATE.match(read) else 0
                self._places.add(_Place(self._fed, -1, piece.rate))
                self._places.add(_Place(self._fed + 1, piece.source, piece.rate, width))
                self._places.add(_Place(self._fed + 1 + len(read), -1, piece.rate))
                yield from self._feed(f" {read} ")
            case Boundary():
                yield from self._utterances(self._segmenter.flush())
            case Pause():
                yield from self._utterances(self._segmenter.flush())
                yield piece

    def _feed(self, text: str) -> Iterator[Utterance | Pause]:
        self._fed += len(text)
        return self._utterances(self._segmenter.cuts(text))

    def _pronounced(self, piece: Phones) -> str:
        """What stands in the text for a word with phones; raises BadRequest."""
        try:
            if len(self._given) == MOST_GIVEN:
                raise BadRequest("too many words with phones of their own", param="phones")
            self._given.append(Substitution.parse(piece))
        except BadRequest:
            if piece.optional:
                return PRIVATE.sub(" ", piece.text)  # with its places kept
            raise
        return marker(len(self._given) - 1)

    def _utterances(self, cuts: Sequence[Cut]) -> Iterator[Utterance | Pause]:
        for text, start, paragraph in cuts:
            self._paragraph = self._paragraph or paragraph
            try:
                found = self._phones(text.translate(_ONE_LINE), tuple(self._given))
            except NothingToSay:
                continue  # "***" between two sentences is no reason to fail them
            if self._paragraph and self._spoken and self._paragraph_s:
                yield Pause(self._paragraph_s)
            self._paragraph, self._spoken = False, True
            self._places.forget(start)
            words = tuple(self._places.placed(word, start) for word in found.words)
            yield replace(found, words=words)
