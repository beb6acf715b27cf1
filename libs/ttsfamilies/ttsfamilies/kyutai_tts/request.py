"""A request as Kyutai TTS takes it, and the entries of its text. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.lm.request import chosen, nothing_to_say, speakable
from ttsfamilies.base.lm.tokenizer import load_processor
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.kyutai_tts.config import KyutaiConfig
from ttsfamilies.kyutai_tts.counters import Entry, Script


class WordTokenizer:
    """Used by any number of threads."""

    def __init__(self, folder: Path, c: KyutaiConfig) -> None:
        """Raises CheckpointError, also where it has more ids than the model."""
        path = folder / c.tokenizer_name
        if Path(c.tokenizer_name).name != c.tokenizer_name:
            raise CheckpointError(f"{folder}: tokenizer_name {c.tokenizer_name!r} is no file here")
        self._processor = load_processor(path)
        if (found := self._processor.vocab_size()) > c.text_card:
            raise CheckpointError(f"{path} has {found} ids, but config.json says {c.text_card}")

    def ids(self, word: str) -> list[int]:
        """Pieces of a word that stands by itself."""
        return self._processor.encode(word)


# A text has at most 20,000 characters; a word has most often several of them, and so has a piece.
MOST_ENTRIES: Final = 4096
MOST_PIECES: Final = 8192
_GUIDANCE, _BONUS, _BETWEEN = "cfg_coef", "padding_bonus", "padding_between"
_INITIAL, _MOST = "initial_padding", "max_padding"
# The package's own settings.
_TEMPERATURE: Final = 0.6
_TOP_K_TEXT, _TOP_K = 25, 250
_USUAL_GUIDANCE: Final = 2.0


def parameters(c: KyutaiConfig) -> tuple[Parameter, ...]:
    """Settings of the package that have no field of their own."""
    known = [f"{value:.1f}" for value in c.guidances]
    usual = f"{_USUAL_GUIDANCE:.1f}"
    return (
        Parameter(
            *(_GUIDANCE, "choice", usual if usual in known else known[0]),
            "How closely voice and text are followed.",
            choices=tuple(known),
        ),
        Parameter(_BONUS, "number", 0.0, "Added to the logit of padding: more is slower.", -4, 4),
        Parameter(_BETWEEN, "integer", 1, "Steps of padding between words.", 0, 8),
        Parameter(_INITIAL, "integer", 2, "Steps before the first word.", 0, 24),
        Parameter(_MOST, "integer", 8, "Most steps without a word, one after the other.", 1, 64),
    )


@dataclass(frozen=True)
class KyutaiDrawing:
    """How a request's ids are drawn: `subtalker` are the codes. guided: which of the guidances."""

    temperature: float
    top_k: int
    subtalker_temperature: float
    subtalker_top_k: int
    bonus: float
    most_pads: int
    guided: int
    initial: int
    between: int

    @classmethod
    def of(cls, request: SpeechRequest, c: KyutaiConfig) -> Self:
        """The request's settings over the package's defaults. Both parts are as warm as one."""
        asked, extra = request.sampling, completed(parameters(c), request.extra_params)
        hot = chosen(asked.temperature, _TEMPERATURE)
        return cls(
            hot,
            chosen(asked.top_k, _TOP_K_TEXT),
            chosen(asked.subtalker_temperature, hot),
            chosen(asked.subtalker_top_k, _TOP_K),
            float(extra[_BONUS]),
            int(extra[_MOST]),
            c.guidances.index(float(extra[_GUIDANCE])),
            int(extra[_INITIAL]),
            int(extra[_BETWEEN]),
        )


class KyutaiPrepared(Prepared):
    """A request whose text is told an entry at a time."""

    def __init__(
        self, request: SpeechRequest, drawing: KyutaiDrawing, voice: int, tokenizer: WordTokenizer
    ) -> None:
        """voice: its row in the tables of voices."""
        self.request, self.drawing, self.voice = request, drawing, voice
        self._script = Script(tokenizer.ids, drawing.between)
        self._held: list[Entry] = []  # before anything that can be spoken
        self._spoken = False
        self._entries = self._pieces = 0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Entry]:
        """Entries as they are complete; raises TextTooLong, NothingToSay."""
        for piece in pieces:
            yield from self._known(self._script.feed(piece))
        if final:
            yield from self._known(self._script.finish())
            if not self._spoken:
                raise nothing_to_say()

    def _known(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self._count(entry)
            self._held.append(entry)
            self._spoken = self._spoken or speakable(entry.text)
            if self._spoken:
                yield from self._held
                self._held = []

    def _count(self, entry: Entry) -> None:
        self._entries, self._pieces = self._entries + 1, self._pieces + len(entry.ids)
        if self._entries > MOST_ENTRIES or self._pieces > MOST_PIECES:
            raise TextTooLong(
                f"the text has more than {MOST_ENTRIES} words or {MOST_PIECES} pieces of words:"
                " split it",
                param="input",
            )
