"""The words of a text as the model is told them, and breaks, each with its padding.

As in the reference (`script_to_entries` of the package moshi) a word is what stands between white
space, marks included; each is divided into pieces by itself, so that a word is known as soon as
the next one, a break or the end of the text is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece
from ttscommon.wire.rows import FloatRows
from ttsfamilies.kyutai_tts.config import FRAME_RATE_HZ, MAIN

# What the model was not trained with.
_READ: Final = {"\u2019": "'", ":": " ", "(": "", ")": ""}


class Entry(NamedTuple):
    """ids: pieces of a word; a break has none. padding: steps after its first in which no other
    entry begins. first, last: see WordTime.
    """

    ids: tuple[int, ...]
    text: str = ""
    padding: int = 0
    first: int = -1
    last: int = -1


class _Letter(NamedTuple):
    """A character as the model reads it, and its place in the client's text."""

    read: str
    written: str
    source: int


class Script:
    """Divides a text that grows. encode: the pieces of a word."""

    def __init__(self, encode: Callable[[str], Sequence[int]], padding: int) -> None:
        """padding: see Entry; 0 for none beyond the word's own pieces."""
        self._encode, self._padding = encode, padding
        self._word: list[_Letter] = []
        self._begun = False

    def feed(self, piece: Piece) -> Iterator[Entry]:
        """Entries that are complete with this piece."""
        if isinstance(piece, Boundary | Pause | FloatRows):
            yield from self.finish()
            if isinstance(piece, Pause):
                yield Entry((), padding=round(piece.seconds * FRAME_RATE_HZ))
            return
        read = piece.read if isinstance(piece, Phones) else piece.text
        known = piece.source >= 0 and not isinstance(piece, Phones)
        for at, letter in enumerate(read):
            yield from self._next(
                _Letter(_READ.get(letter, letter), letter, piece.source + at if known else -1)
            )

    def _next(self, letter: _Letter) -> Iterator[Entry]:
        if letter.read.isspace():
            yield from self.finish()
        else:
            self._word.append(letter)

    def finish(self) -> Iterator[Entry]:
        """The word at the end, if there is one."""
        word, self._word = self._word, []
        read = "".join(letter.read for letter in word)
        if not read:
            return
        ids = tuple(self._encode(read))
        if not self._begun:
            ids, self._begun = (MAIN, *ids), True
        padding = max(0, self._padding + len(ids) - 1) if self._padding else 0
        first, last = word[0].source, word[-1].source
        written = "".join(letter.written for letter in word)
        told = (first, last + 1) if min(first, last) >= 0 else (-1, -1)
        yield Entry(ids, written, padding, *told)
