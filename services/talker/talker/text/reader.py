"""From typed pieces of text to utterances and pauses, as the text arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from talker.text.frontend import MOST_GIVEN, PRIVATE, Given, Utterance, marker
from talker.text.segment import Segmenter
from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text

Phonetise: TypeAlias = Callable[[str, tuple[Given, ...]], Utterance]


class Reader:
    """Reads the text of one request; used by one caller at a time."""

    def __init__(self, phones: Phonetise) -> None:
        self._phones = phones
        self._segmenter = Segmenter()
        self._given: list[Given] = []
        self._spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Utterance | Pause]:
        """What is certain after these pieces.

        Raises NothingToSay if the text ends and nothing in it could be spoken.
        """
        for piece in pieces:
            yield from self._piece(piece)
        if final:
            yield from self._utterances(self._segmenter.feed("", final=True))
            if not self._spoken:
                raise NothingToSay("the text holds nothing that can be spoken", param="input")

    def _piece(self, piece: Piece) -> Iterator[Utterance | Pause]:
        match piece:
            case Text(text):
                yield from self._utterances(self._segmenter.feed(PRIVATE.sub(" ", text)))
            case Phones():
                yield from self._utterances(self._segmenter.feed(f" {self._pronounced(piece)} "))
            case Boundary():
                yield from self._utterances(self._segmenter.flush())
            case Pause():
                yield from self._utterances(self._segmenter.flush())
                yield piece

    def _pronounced(self, piece: Phones) -> str:
        """What stands in the text for a word with phones; raises BadRequest."""
        try:
            if len(self._given) == MOST_GIVEN:
                raise BadRequest("too many words with phones of their own", param="phones")
            self._given.append(Given.parse(piece))
        except BadRequest:
            if piece.optional:
                return PRIVATE.sub(" ", piece.text)
            raise
        return marker(len(self._given) - 1)

    def _utterances(self, texts: Sequence[str]) -> Iterator[Utterance]:
        for text in texts:
            try:
                yield self._phones(text, tuple(self._given))
                self._spoken = True
            except NothingToSay:
                continue  # "***" between two sentences is no reason to fail them
