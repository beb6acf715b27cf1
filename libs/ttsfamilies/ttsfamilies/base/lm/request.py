"""Requests as language models hear them: texts, and how to draw. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeVar, get_type_hints

import numpy as np

from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.messages import Sampling
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.base.talker.base import NUMBER, REAL, Prepared
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.streams import SlotWriter

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


# Settings of drawing: defaults, a request's values in their place, and what a slot is told.


# Of fields that a request calls otherwise.
_ASKED: Final = MappingProxyType({"penalty": "repetition_penalty"})


def fields_of(drawing: type[Any]) -> dict[str, Field]:
    """What `tell` writes of a slot's state: its settings, its seed and whether it is over."""
    settings = get_type_hints(drawing).items()
    return {
        **dict.fromkeys(("over", "seed"), NUMBER),
        **{name: NUMBER if kind is int else REAL for name, kind in settings},
    }


def tell(write: SlotWriter, seed: int, drawing: Any) -> None:
    """Begin to draw so: a slot's settings and seed, and that it is not over."""
    write("over", 0)
    write("seed", seed)
    for name, value in asdict(drawing).items():
        write(name, value)


@dataclass(frozen=True)
class Drawing:
    """A temperature of 0 is greedy, a top_k of 0 keeps all ids, a top_p of 1 too."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0

    def with_asked(self, asked: Sampling) -> Self:
        """With the request's value in place of each of these defaults that it names."""
        found = {f.name: getattr(asked, _ASKED.get(f.name, f.name), None) for f in fields(self)}
        return replace(self, **{name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True)
class PenalisedDrawing(Drawing):
    """penalty: what the logits of ids that were drawn before are divided or multiplied by."""

    penalty: float = 1.0


@dataclass(frozen=True)
class LayeredDrawing(Drawing):
    """subtalker: of the codebooks behind the first, which a network of their own predicts."""

    subtalker_temperature: float = 1.0
    subtalker_top_k: int = 0
    subtalker_top_p: float = 1.0
