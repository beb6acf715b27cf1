"""What a text is made of once it is parsed: the typed pieces that a model's frontend is fed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

Alphabet: TypeAlias = Literal["model", "ipa"]
"""What phones are written in: the model's own, separated by spaces, or the IPA."""


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Characters to speak. A word may go on in the next piece of text."""

    text: str


class Boundary(msgspec.Struct, frozen=True, tag="boundary"):
    """A sentence ends here, whatever its last character is: what came so far may be spoken."""


class Phones(msgspec.Struct, frozen=True, tag="phones"):
    """A word as written, and its pronunciation. Markup may give phones alone: then `text` is "".

    optional: where the model cannot say these phones the word is spoken as it is written, else the
    request fails.
    """

    text: str
    phones: str
    alphabet: Alphabet = "model"
    optional: bool = False

    @property
    def written(self) -> str:
        """What stands in the text, at least one character."""
        return self.text or " "


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Silence of this length between what came before and what follows."""

    seconds: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]


Piece: TypeAlias = Text | Boundary | Phones | Pause


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A piece that is no plain text, at a character of the text it travels with.

    A boundary and a pause stand on a space of their own; a word with phones is in the text.
    """

    at: Annotated[int, msgspec.Meta(ge=0)]
    piece: Boundary | Phones | Pause

    @property
    def end(self) -> int:
        return self.at + (len(self.piece.written) if isinstance(self.piece, Phones) else 1)


class Marked(NamedTuple):
    """Text and what is marked in it: how pieces travel."""

    text: str
    marks: tuple[Mark, ...] = ()


def marked(pieces: Iterable[Piece]) -> Marked:
    """Pieces as they travel. Every one takes at least a character, so positions count them."""
    text, marks = "", []
    for piece in pieces:
        if isinstance(piece, Text):
            text += piece.text
            continue
        marks.append(Mark(len(text), piece))
        text += piece.written if isinstance(piece, Phones) else " "
    return Marked(text, tuple(marks))


def unmarked(text: str, marks: Sequence[Mark]) -> list[Piece]:
    """The pieces again; marks that overlap or lie outside the text are left out."""
    pieces: list[Piece] = []
    position = 0
    for mark in marks:
        if not position <= mark.at < mark.end <= len(text):
            continue
        pieces += [Text(text[position : mark.at])] if mark.at > position else []
        pieces.append(mark.piece)
        position = mark.end
    return [*pieces, Text(text[position:])] if position < len(text) or not pieces else pieces
