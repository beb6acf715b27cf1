"""What a request may ask of Orpheus, and its prompt. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from talker.family.base import Prepared
from talker.models.orpheus.config import (
    BEGIN_HUMAN,
    BEGIN_MODEL,
    BEGIN_SPEECH,
    BEGIN_TEXT,
    END_HUMAN,
    END_TURN,
    SLOTS,
)
from talker.models.shared.tokenizer import TextTokenizer
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece

N = TypeVar("N", int, float)

# Of the English fine-tune.
VOICES: Final = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
_TEXT_SHARE: Final = 4


@dataclass(frozen=True)
class Drawing:
    """How a request's ids are drawn: the package's defaults where it says nothing."""

    temperature: float = 0.6
    top_k: int = 0
    top_p: float = 0.8
    penalty: float = 1.3

    @classmethod
    def of(cls, asked: Sampling) -> Drawing:
        plain = cls()
        return cls(
            _or(asked.temperature, plain.temperature),
            _or(asked.top_k, plain.top_k),
            _or(asked.top_p, plain.top_p),
            _or(asked.repetition_penalty, plain.penalty),
        )


def _or(asked: N | None, default: N) -> N:
    return default if asked is None else asked


class Prompt(NamedTuple):
    """A whole text's positions, and how many frames may follow them."""

    ids: tuple[int, ...]
    frames: int


def prompt_ids(tokenizer: TextTokenizer, voice: str, text: str) -> tuple[int, ...]:
    """The turn of a human who says `voice: text`, and the model's as far as its speech begins."""
    said = tokenizer.ids(f"{voice}: {text}" if voice else text)
    begin, end = (BEGIN_HUMAN, BEGIN_TEXT), (END_TURN, END_HUMAN, BEGIN_MODEL, BEGIN_SPEECH)
    return (*begin, *said, *end)


class OrpheusPrepared(Prepared):
    """A request whose text is read when it is complete: the model needs all of it at once."""

    def __init__(
        self, request: SpeechRequest, tokenizer: TextTokenizer, positions: int, most_tokens: int
    ) -> None:
        """positions: of prompt and speech. most_tokens: of speech, unless the request says less."""
        self.request, self.drawing = request, Drawing.of(request.sampling)
        self._tokenizer, self._positions = tokenizer, positions
        self._most = min(most_tokens, request.sampling.max_new_tokens or most_tokens)
        self._text: list[str] = []

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Prompt]:
        """The prompt, once `final`; raises TextTooLong, NothingToSay."""
        self._text += [_written(piece) for piece in pieces]
        if not final:
            return
        text = "".join(self._text).strip()
        if not any(c.isalnum() for c in text):
            raise NothingToSay("the text holds nothing that can be spoken", param="input")
        ids = prompt_ids(self._tokenizer, self.request.voice, text)
        if len(ids) > (most := self._positions // _TEXT_SHARE):
            raise TextTooLong(
                f"the text has {len(ids)} tokens, the model can speak {most} at once: split it",
                param="input",
            )
        yield Prompt(ids, self._frames(len(ids)))

    def _frames(self, before: int) -> int:
        return max(1, min(self._most, self._positions - before) // SLOTS)


def _written(piece: Piece) -> str:
    if isinstance(piece, Boundary | Pause):
        return " "
    return piece.read if isinstance(piece, Phones) else piece.text


def check(request: SpeechRequest, voices: Sequence[str]) -> None:
    """Raises BadRequest for what the model cannot speak."""
    if request.voice not in voices:
        raise UnknownVoice(
            f"no voice {request.voice!r}; there are {', '.join(voices)}", param="voice"
        )
    if request.reference is not None:
        raise BadRequest("this model cannot clone a voice", param="ref_audio")
