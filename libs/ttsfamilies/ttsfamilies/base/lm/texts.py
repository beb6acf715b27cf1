"""Texts of requests as language models read them: all at once, or passage by passage. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.fields import Array
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece
from ttscommon.wire.rows import FloatRows
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.blocks import keys

N = TypeVar("N", int, float)


def chosen(asked: N | None, default: N) -> N:
    """What a request asks for, or else the checkpoint's own."""
    return default if asked is None else asked


def plain_text(piece: Piece) -> str:
    """A piece as a model is shown it that reads letters alone."""
    if isinstance(piece, Boundary | Pause | FloatRows):
        return " "
    return piece.read if isinstance(piece, Phones) else piece.text


def speakable(text: str) -> bool:
    """Whether it holds anything to say."""
    return any(c.isalnum() for c in text)


def nothing_to_say() -> NothingToSay:
    """Of a text that is not `speakable`."""
    return NothingToSay("the text holds nothing that can be spoken", param="input")


def limited(taken: int, most: int, what: str, advice: str = "split it", of: str = "input") -> None:
    """Raises TextTooLong where `what` takes more positions than the model has for it.

    of: the field of the request that is too long.
    """
    if taken > most:
        raise TextTooLong(
            f"{what} {taken} positions, and the model can speak {most} at once: {advice}", param=of
        )


class IdsPrompt(NamedTuple):
    """A passage's positions, an id each. frames: the most that may follow. common: leading
    positions that other requests may begin with. longest_s: see LmStream. least: frames that follow
    in any case.
    """

    ids: tuple[int, ...]
    frames: int
    common: int = 0
    longest_s: float | None = None
    least: int = 0

    @property
    def length(self) -> int:
        """Positions."""
        return len(self.ids)

    @property
    def array(self) -> Array:
        """[positions] int64."""
        return np.array(self.ids, np.int64)

    def keys(self) -> Sequence[bytes]:
        """See TalkerStream.prefix."""
        return keys((self.array,), self.common)


class WholeText(Prepared):
    """A request whose text is read when it is complete: the model needs all of it at once."""

    _text = ""

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Any]:
        """The prompts, once `final`; raises TextTooLong, NothingToSay."""
        self._text += "".join(map(plain_text, pieces))
        if final:
            yield from self.prompts(self._text.strip())

    @abstractmethod
    def prompts(self, text: str) -> Iterable[Any]:
        """Of the text."""


class PassageSplitter(Protocol):
    """A text in passages; see Passages."""

    def feed(self, text: str, *, final: bool) -> Iterator[str]: ...


class PassagesText(Prepared):
    """A request whose text is read passage by passage: the model needs all of one at once.

    passages: of the request's text. bounded: a client's boundary ends a passage.
    """

    passages: PassageSplitter
    bounded: ClassVar[bool] = False
    _spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Any]:
        """A prompt for each passage that is certain; raises TextTooLong, NothingToSay."""
        for piece in pieces:
            ends = self.bounded and isinstance(piece, Boundary)
            yield from self._fed(plain_text(piece), ends=ends)
        yield from self._fed("", ends=final)
        if final and not self._spoken:
            raise nothing_to_say()

    def _fed(self, text: str, *, ends: bool) -> Iterator[Any]:
        for passage in filter(speakable, self.passages.feed(text, final=ends)):
            self._spoken = True
            yield self.prompt(passage)

    @abstractmethod
    def prompt(self, text: str) -> Any:
        """Of a passage."""
