"""A request as Orpheus takes it, and its prompt. No torch.

Ids of a frame that is not whole are the device's alone: a stream whose cache was taken away draws
them again, with the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from ttscommon.engine.checkpoint import checked_config
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.request import IdsPrompt, PassagesText, PenalisedDrawing, limited, tell
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.lmstream import DRAWN, ENDLESS, LmStream
from ttsfamilies.base.talker.signs import letters, longest_s
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.segment import Passages

SLOTS: Final = 7
CODES: Final = 4096
BEGIN_TEXT: Final = 128_000
END_TURN: Final = 128_009
BEGIN_SPEECH: Final = 128_257
END_SPEECH: Final = 128_258
BEGIN_HUMAN: Final = 128_259
END_HUMAN: Final = 128_260
BEGIN_MODEL: Final = 128_261
FIRST_AUDIO: Final = 128_266
END_AUDIO: Final = FIRST_AUDIO + SLOTS * CODES
# Sequences in training were no longer.
MOST_POSITIONS: Final = 8192


@dataclass(frozen=True)
class LlamaConfig(LlamaSizes):
    """config.json."""

    @property
    def positions(self) -> int:
        return min(self.max_position_embeddings, MOST_POSITIONS)


def load_config(folder: Path) -> LlamaConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, LlamaConfig, _problems)


def _problems(c: LlamaConfig) -> list[str]:
    found = []
    if c.model_type != "llama" or c.vocab_size < END_AUDIO:
        found.append(f"a {c.model_type} with {c.vocab_size} ids has no place for seven codebooks")
    return [*found, *c.problems()]


# Of the English fine-tune.
VOICES: Final = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
_TEXT_SHARE: Final = 4
# About 40 s of speech; the model was trained on sequences of 97 s, and most of it on far fewer.
PASSAGE_TOKENS: Final = 160
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
        """The request's settings over the package's defaults."""
        extra = completed(PARAMETERS, request.extra_params)
        return cls(0.6, 0, 0.8, 1.3, float(extra["min_p"])).with_asked(request.sampling)


def prompt_ids(tokenizer: TextTokenizer, voice: str, text: str) -> tuple[int, ...]:
    """The turn of a human who says `voice: text`, and the model's as far as its speech begins."""
    said = tokenizer.ids(f"{voice}: {text}" if voice else text)
    begin, end = (BEGIN_HUMAN, BEGIN_TEXT), (END_TURN, END_HUMAN, BEGIN_MODEL, BEGIN_SPEECH)
    return (*begin, *said, *end)


class OrpheusPrepared(PassagesText):
    """See PassagesText."""

    def __init__(
        self, request: SpeechRequest, tokenizer: TextTokenizer, positions: int, most_tokens: int
    ) -> None:
        """positions: of prompt and speech. most_tokens: of speech, unless the request says less."""
        self.request, self.drawing = request, OrpheusDrawing.of(request)
        self._tokenizer, self._positions = tokenizer, positions
        asked = request.sampling.max_new_tokens
        self._most = min(most_tokens, asked or most_tokens)
        self.most_frames = max(1, asked // SLOTS) if asked else ENDLESS
        self.passages = Passages(lambda text: len(tokenizer.ids(text)), PASSAGE_TOKENS)

    def prompt(self, text: str) -> IdsPrompt:
        ids = prompt_ids(self._tokenizer, self.request.voice, text)
        limited(len(ids), self._positions // _TEXT_SHARE, "a sentence takes")
        frames = max(1, min(self._most, self._positions - len(ids)) // SLOTS)
        return IdsPrompt(ids, frames, longest_s=longest_s(letters(text)))


# Ids that may be drawn, from the end of speech to the last audio id.
CHOICES: Final = FIRST_AUDIO - END_SPEECH + SLOTS * CODES
_OFFSETS: Final = FIRST_AUDIO + CODES * np.arange(SLOTS, dtype=np.int64)


def ids_of(frames: Array) -> Array:
    """Codes [frames, 7] -> ids [frames * 7] int64."""
    return (frames.astype(np.int64) + _OFFSETS).reshape(-1)


class OrpheusStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"codes": Field((SLOTS,), "i2", CODES)})
    steps = SLOTS

    def __init__(self, prepared: OrpheusPrepared) -> None:
        super().__init__(prepared.most_frames)
        self._prepared = prepared

    def positions(self, branch: int) -> Arrays:
        del branch
        return {"id": np.concatenate([self.passage.array, ids_of(self.spoken["codes"])])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN, np.int64)}

    def begin(self, write: SlotWriter) -> None:
        seen = np.zeros(CHOICES, np.uint8)
        seen[ids_of(self.spoken["codes"]) - END_SPEECH] = 1
        write("seen", seen)
        write("codes", np.zeros(SLOTS, np.int64))
        write("step", SLOTS * self.frames)
        write("drawn", 0)
        tell(write, self._prepared.request.seed, self._prepared.drawing)
