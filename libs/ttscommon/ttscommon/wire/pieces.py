"""Parts of a parsed text: the typed pieces that a model's frontend is fed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec

from ttscommon.wire.tensors import FloatRows

Alphabet: TypeAlias = Literal["model", "ipa"]
"""What phones are written in: the model's own, separated by spaces, or the IPA."""

KINDS: Final = frozenset(
    (
        *("characters", "spell-out", "verbatim", "digits", "cardinal", "number", "ordinal"),
        *("fraction", "date", "time", "duration", "telephone", "currency", "unit", "measure"),
        *("address", "name", "net", "expletive", "bleep"),
    )
)
"""What a word may be read as, by SSML's names and those of its users; see Phones."""


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Characters to speak. A word may go on in the next piece of text.

    source: its first character's place in the text as the client sent it, -1 where that is not
    known. rate: how many times as fast as the rest it is spoken, by models that can.
    """

    text: str
    source: int = -1
    rate: float = 1.0


class Boundary(msgspec.Struct, frozen=True, tag="boundary"):
    """A sentence ends here, whatever its last character is: what came so far may be spoken."""


class Phones(msgspec.Struct, frozen=True, tag="phones", omit_defaults=True):
    """A word as written, and its pronunciation. Markup may give phones alone: then `text` is "".

    optional: where the model cannot say these phones the word is spoken as it is written, else the
    request fails. Without phones `alias` is what is read in place of the word, or `kind` (SSML's
    `interpret-as`) and `form` (its `format`) say as what the word is read. source, rate: see Text.
    """

    text: str
    phones: str
    alphabet: Alphabet = "model"
    optional: bool = False
    alias: str = ""
    kind: str = ""
    form: str = ""
    source: int = -1
    rate: float = 1.0

    @property
    def written(self) -> str:
        """What stands in the text, at least one character."""
        return self.text or " "

    @property
    def read(self) -> str:
        """What a model reads that knows neither phones nor kinds."""
        return self.alias or self.written


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Silence of this length between what came before and what follows."""

    seconds: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]


Piece: TypeAlias = Text | Boundary | Phones | Pause | FloatRows
"""A boundary, phones and a pause are marks in a text; rows travel by themselves."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A piece that is no plain text, at a character of the text it travels with.

    A boundary and a pause stand on a space of their own; a word with phones is in the text.
    """

    at: Annotated[int, msgspec.Meta(ge=0)]
    piece: Boundary | Phones | Pause

    @property
    def end(self) -> int:
        return self.at + (len(self.piece.written) if isinstance(self.piece, Phones) else 1)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """What holds from a character of a text on, up to the next span; see Text."""

    at: Annotated[int, msgspec.Meta(ge=0)]
    source: int = -1
    rate: float = 1.0

    def source_at(self, position: int) -> int:
        """Where the character at `position`, in this span, stands in the client's text."""
        return self.source + position - self.at if self.source >= 0 else -1


class Marked(NamedTuple):
    """Text and what is marked in it: how pieces travel."""

    text: str
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()


def marked(pieces: Iterable[Piece]) -> Marked:
    """Pieces as they travel. Every one takes at least a character, so positions count them."""
    text, marks, spans = "", [], [Span(0)]
    for piece in pieces:
        if isinstance(piece, FloatRows):
            raise ValueError("rows are no part of a text")
        if isinstance(piece, Text | Phones):
            _extend(spans, len(text), piece)
        if isinstance(piece, Text):
            text += piece.text
            continue
        marks.append(Mark(len(text), _bare(piece)))
        text += piece.written if isinstance(piece, Phones) else " "
    return Marked(text, tuple(marks), () if spans == [Span(0)] else tuple(spans))


def unmarked(text: str, marks: Sequence[Mark], spans: Sequence[Span] = ()) -> list[Piece]:
    """The pieces again; marks that overlap or lie outside the text are left out."""
    pieces: list[Piece] = []
    cutter = _Cutter(text, spans)
    position = 0
    for mark in marks:
        if not position <= mark.at < mark.end <= len(text):
            continue
        pieces += cutter.texts(position, mark.at)
        pieces.append(cutter.placed(mark))
        position = mark.end
    return pieces + cutter.texts(position, len(text)) if text else [Text("")]


def tail_of(spans: Sequence[Span], cut: int) -> tuple[Span, ...]:
    """The spans of what is left of a text without its first `cut` characters."""
    before = [span for span in spans if span.at <= cut]
    first = [Span(0, before[-1].source_at(cut), before[-1].rate)] if before else []
    return (*first, *(Span(s.at - cut, s.source, s.rate) for s in spans if s.at > cut))


def _extend(spans: list[Span], at: int, piece: Text | Phones) -> None:
    """Begin another span where a piece does not go on as the last one does."""
    last = spans[-1]
    if (piece.source, piece.rate) != (last.source_at(at), last.rate):
        if last.at == at:
            spans.pop()
        spans.append(Span(at, piece.source, piece.rate))


def _bare(piece: Boundary | Phones | Pause) -> Boundary | Phones | Pause:
    """Without what its span says."""
    if not isinstance(piece, Phones):
        return piece
    return msgspec.structs.replace(piece, source=-1, rate=1.0)


class _Cutter:
    """Cuts a text at its spans, from left to right."""

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        self._text = text
        self._spans = sorted(spans, key=lambda span: span.at) or [Span(0)]
        self._index = 0

    def texts(self, start: int, end: int) -> list[Piece]:
        found: list[Piece] = []
        while start < end:
            span = self._span(start)
            stop = min(end, self._next(end))
            found.append(Text(self._text[start:stop], span.source_at(start), span.rate))
            start = stop
        return found

    def placed(self, mark: Mark) -> Piece:
        if not isinstance(mark.piece, Phones):
            return mark.piece
        span = self._span(mark.at)
        source = span.source_at(mark.at)
        return msgspec.structs.replace(mark.piece, source=source, rate=span.rate)

    def _span(self, position: int) -> Span:
        while self._next(position + 1) <= position:
            self._index += 1
        return self._spans[self._index]

    def _next(self, otherwise: int) -> int:
        """Where the span that follows begins."""
        following = self._index + 1
        return self._spans[following].at if following < len(self._spans) else otherwise
