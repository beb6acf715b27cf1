"""A request as Pocket TTS takes it, its voice, and its prompts. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttsfamilies.base.lm.request import PassagesText, chosen, limited
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import ENDLESS, LmStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.pocket_tts.sizes import PocketConfig
from ttsfamilies.pocket_tts.tokenizer import Chunks, Tokenizer, prompt

# What a position holds: a text id, a latent, a recording's latent, what stands before a voice, or
# a position of a published voice, whose keys and values are known.
TEXT, LATENT, HEARD, BEGIN, KEPT = range(5)
# The package's estimate of the longest speech.
_TOKENS_A_SECOND, _SECONDS_BEYOND = 3.0, 2.0
_PROMPT_SHARE: Final = 2
_AFTER: Final = "frames_after_eos"
_THRESHOLD: Final = "eos_threshold"


def parameters(config: PocketConfig) -> tuple[Parameter, ...]:
    """Settings of the package that have no field of their own."""
    return (
        Parameter(
            *(_AFTER, "integer", -1, "Frames behind the end of speech; -1: by the text.", -1, 100)
        ),
        Parameter(
            *(_THRESHOLD, "number", config.default_eos_threshold),
            *("What the logit of the end has to exceed.", -100, 100),
        ),
    )


@dataclass(frozen=True)
class PocketDrawing:
    """How latents are drawn. deviation: of the noise. after: negative follows from the text."""

    deviation: float
    threshold: float
    after: int

    @classmethod
    def of(cls, request: SpeechRequest, config: PocketConfig) -> Self:
        """The request's settings over the checkpoint's."""
        extra = completed(parameters(config), request.extra_params)
        hot = chosen(request.sampling.temperature, config.default_temperature)
        return cls(math.sqrt(hot), float(extra[_THRESHOLD]), int(extra[_AFTER]))


class VoicePrefix(NamedTuple):
    """The positions that a prompt begins with: kind and id [positions] int64, latents of a
    recording [positions, values].
    """

    kind: Array
    id: Array
    row: Array


class Prompt(NamedTuple):
    """What is prefilled of one chunk of the text.

    length: positions, with the voice before the tokens and the first latent behind them. frames:
    the most that may follow. after: those behind the end of speech. longest_s: see LmStream.
    """

    tokens: tuple[int, ...]
    length: int
    frames: int
    after: int
    longest_s: float


class PocketPrepared(PassagesText):
    """See PassagesText. A passage is a chunk, as the package cuts them."""

    bounded = True

    def __init__(
        self,
        request: SpeechRequest,
        config: PocketConfig,
        voice: VoicePrefix,
        tokenizer: Tokenizer,
        positions: int,
    ) -> None:
        """positions: of prompt and speech."""
        self.request, self.voice = request, voice
        self.drawing = PocketDrawing.of(request, config)
        self._config, self._tokenizer, self._positions = config, tokenizer, positions
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self.passages = Chunks(config, tokenizer)

    def prompt(self, text: str) -> Prompt:
        said, after = prompt(self._config, text)
        ids = self._tokenizer.tokens(said).ids
        length = len(self.voice.kind) + len(ids) + 1
        limited(length, self._positions // _PROMPT_SHARE, "voice and a sentence take")
        seconds = len(ids) / _TOKENS_A_SECOND + _SECONDS_BEYOND
        frames = math.ceil(seconds * self._config.mimi.frame_rate)
        most = min(frames, self._positions - length)
        asked = self.drawing.after
        return Prompt(tuple(ids), length, most, after if asked < 0 else asked, seconds)


def recorded(latents: Array, *, begins: bool) -> VoicePrefix:
    """A voice made of a recording's latents [frames, values]. begins: something stands before."""
    kind = np.full(begins + len(latents), HEARD, np.int64)
    kind[:begins] = BEGIN
    row = np.pad(latents.astype(np.float32), ((int(begins), 0), (0, 0)))
    return VoicePrefix(kind, np.zeros(len(kind), np.int64), row)


def published(rows: range, values: int) -> VoicePrefix:
    """A voice whose keys and values are known."""
    ids = np.arange(rows.start, rows.stop, dtype=np.int64)
    return VoicePrefix(
        np.full(len(ids), KEPT, np.int64), ids, np.zeros((len(ids), values), np.float32)
    )


# Frames that follow a frame once the end was seen; before that, none is known.
LEFT: Final = MappingProxyType({"left": Field((), "i2")})
UNKNOWN: Final = -1


class PocketStream(LmStream):
    """See TalkerStream."""

    def __init__(self, prepared: PocketPrepared, first: Array) -> None:
        """first: [values] float32, the latent before a passage's first."""
        super().__init__(prepared.most_frames)
        self._prepared, self._first = prepared, first
        self.frame = {"latent": Field(first.shape, "f4"), **LEFT}
        self._keys = keys(prepared.voice, len(prepared.voice.kind))

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def _resume(self) -> None:
        super()._resume()
        if not self.books["left"][-1]:
            self._next()

    def positions(self, branch: int) -> Arrays:
        voice, tokens = self._prepared.voice, np.array(self.passage.tokens, np.int64)
        spoken = np.concatenate([self._first[None], self.spoken["latent"]])
        width = max(spoken.shape[1], voice.row.shape[1])
        told = {
            "kind": (voice.kind, np.full(len(tokens), TEXT), np.full(len(spoken), LATENT)),
            "id": (voice.id, tokens, np.zeros(len(spoken), np.int64)),
            "row": (
                _widened(voice.row, width),
                np.zeros((len(tokens), width), np.float32),
                _widened(spoken, width),
            ),
        }
        return {name: np.concatenate(parts) for name, parts in told.items()}

    def begin(self, write: SlotWriter) -> None:
        spoken, drawing = self.spoken, self._prepared.drawing
        said = len(spoken["left"])
        write("latent", spoken["latent"][-1] if said else self._first)
        write("left", spoken["left"][-1] if said else UNKNOWN)
        write("frame", self.frames)
        write("said", said)
        write("over", 0)
        write("after", self.passage.after)
        write("seed", self._prepared.request.seed)
        write("deviation", drawing.deviation)
        write("threshold", drawing.threshold)


def _widened(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
