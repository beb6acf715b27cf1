"""A request as Orpheus takes it, and its prompt. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.lm.asked import plain_text
from ttsfamilies.base.lm.drawing import PenalisedDrawing
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.signs import letters, longest_s
from ttsfamilies.base.text.passages import Passages
from ttsfamilies.orpheus.config import (
    BEGIN_HUMAN,
    BEGIN_MODEL,
    BEGIN_SPEECH,
    BEGIN_TEXT,
    END_HUMAN,
    END_TURN,
    SLOTS,
)

# Of the English fine-tune.
VOICES: Final = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
_TEXT_SHARE: Final = 4
# About 40 s of speech; the model was trained on sequences of 97 s, and most of it on far fewer.
PASSAGE_TOKENS: Final = 160
_ENDLESS: Final = 1 << 40
PARAMETERS: Final = (
    Parameter(
        "min_p", "number", 0.0, "Ids less likely than this share of the likeliest are out.", 0, 1
    ),
)


@dataclass(frozen=True)
class OrpheusDrawing(PenalisedDrawing):
    """min_p: see PARAMETERS."""

    min_p: float = 0.0

    @classmethod
    def of(cls, request: SpeechRequest) -> Self:
        """The request's wishes over the package's defaults."""
        extra = completed(PARAMETERS, request.extra_params)
        return cls(0.6, 0, 0.8, 1.3, float(extra["min_p"])).wished(request.sampling)


class OrpheusPrompt(NamedTuple):
    """A passage's positions, how many frames may follow, and how long its text lasts at most."""

    ids: tuple[int, ...]
    frames: int
    longest_s: float

    @property
    def length(self) -> int:
        return len(self.ids)


def prompt_ids(tokenizer: TextTokenizer, voice: str, text: str) -> tuple[int, ...]:
    """The turn of a human who says `voice: text`, and the model's as far as its speech begins."""
    said = tokenizer.ids(f"{voice}: {text}" if voice else text)
    begin, end = (BEGIN_HUMAN, BEGIN_TEXT), (END_TURN, END_HUMAN, BEGIN_MODEL, BEGIN_SPEECH)
    return (*begin, *said, *end)


class OrpheusPrepared(Prepared):
    """A request whose text is read passage by passage: the model needs all of one at once."""

    def __init__(
        self, request: SpeechRequest, tokenizer: TextTokenizer, positions: int, most_tokens: int
    ) -> None:
        """positions: of prompt and speech. most_tokens: of speech, unless the request says less."""
        self.request, self.drawing = request, OrpheusDrawing.of(request)
        self._tokenizer, self._positions = tokenizer, positions
        asked = request.sampling.max_new_tokens
        self._most = min(most_tokens, asked or most_tokens)
        self.most_frames = max(1, asked // SLOTS) if asked else _ENDLESS
        self._passages = Passages(lambda text: len(tokenizer.ids(text)), PASSAGE_TOKENS)
        self._spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[OrpheusPrompt]:
        """A prompt for each passage that is certain; raises TextTooLong, NothingToSay."""
        for text in self._passages.feed("".join(map(plain_text, pieces)), final=final):
            if any(c.isalnum() for c in text):
                self._spoken = True
                yield self._prompt(text)
        if final and not self._spoken:
            raise NothingToSay("the text holds nothing that can be spoken", param="input")

    def _prompt(self, text: str) -> OrpheusPrompt:
        ids = prompt_ids(self._tokenizer, self.request.voice, text)
        if len(ids) > (most := self._positions // _TEXT_SHARE):
            raise TextTooLong(
                f"a sentence has {len(ids)} tokens, the model can speak {most} at once: split it",
                param="input",
            )
        return OrpheusPrompt(ids, self._frames(len(ids)), longest_s(letters(text)))

    def _frames(self, before: int) -> int:
        return max(1, min(self._most, self._positions - before) // SLOTS)


def check(request: SpeechRequest, voices: Sequence[str]) -> None:
    """Raises BadRequest for what the model cannot speak."""
    if request.voice not in voices:
        raise UnknownVoice(
            f"no voice {request.voice!r}; there are {', '.join(voices)}", param="voice"
        )
    if request.reference is not None:
        raise BadRequest("this model cannot clone a voice", param="ref_audio")
