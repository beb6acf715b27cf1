"""A request as Step-Audio 2 takes it, and its prompt: a chat whose last turn is answered.

What a human said may be sound, whose rows stand between two marks, or text, or both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError, checked_config
from ttscommon.engine.codec_sizes import head_problems, size_problems
from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.answers import AnswerIds, AnswerStream
from ttsfamilies.base.lm.llama import Qwen2Sizes
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.lm.request import PenalisedDrawing, WholeText, limited, speakable
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import DRAWN
from ttsfamilies.base.talker.streams import SlotWriter

# Sizes of a Step-Audio 2 checkpoint, and the ids that all of them share. No torch.


MODEL_TYPE: Final = "step_audio_2"
# By name, what published tokenizers have; a tokenizer's own ids count before these.
_PUBLISHED: Final = {
    "<|endoftext|>": 151_643,
    "<|im_end|>": 151_645,
    "<|EOT|>": 151_665,
    "<audio_start>": 151_688,
    "<audio_end>": 151_689,
    "<audio_patch>": 151_690,
    "<audio_0>": 151_696,
}
# Sound is heard in segments of so many seconds.
SEGMENT_S: Final = 25


@dataclass(frozen=True)
class StepSizes(Qwen2Sizes):
    """text_config."""

    model_type: str = "step_audio_2_text"
    rms_norm_eps: float = 1e-6
    rope_theta: float | None = 1_000_000.0


@dataclass(frozen=True)
class HearingSizes:
    """audio_encoder_config: a Whisper encoder, and the adaptor behind it."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    llm_dim: int
    kernel_size: int = 3
    adapter_stride: int = 2


@dataclass(frozen=True)
class StepConfig:
    """config.json."""

    text_config: StepSizes
    audio_encoder_config: HearingSizes
    model_type: str


@dataclass(frozen=True)
class ChatIds:
    """Ids of control tokens, by what they do. ends: those that end an answer. Ids of text come
    before `audio_start`; `first_audio` is the first token of speech.
    """

    begin: int
    end: int
    speak: int
    audio_start: int
    audio_end: int
    audio_patch: int
    first_audio: int
    ends: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Qwen2Tokenizer, ids: int) -> ChatIds:
        """ids: of the language model. Raises CheckpointError."""

        def of(name: str) -> int:
            return tokenizer.special(name, _PUBLISHED.get(name))

        ends = ("<|EOT|>", "<tts_end>", "<|endoftext|>", "<|im_end|>")
        found = cls(
            begin=of("<|BOT|>"),
            end=of("<|EOT|>"),
            speak=of("<tts_start>"),
            audio_start=of("<audio_start>"),
            audio_end=of("<audio_end>"),
            audio_patch=of("<audio_patch>"),
            first_audio=of("<audio_0>"),
            ends=frozenset(of(name) for name in ends),
        )
        if found.first_audio + TOKENS >= ids:  # the id behind them is padding
            raise CheckpointError(f"{ids} ids have no place for {TOKENS} tokens of speech")
        return found


def load_config(folder: Path) -> StepConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, StepConfig, _problems)


def _problems(config: StepConfig) -> Iterator[str]:
    text, heard = config.text_config, config.audio_encoder_config
    if config.model_type != MODEL_TYPE:
        yield f"model_type is {config.model_type!r}, not {MODEL_TYPE!r}"
    yield from text.problems()
    yield from size_problems(heard)
    yield from head_problems(heard.n_audio_head, heard.n_audio_head, _head(heard))
    if heard.llm_dim != text.hidden_size:
        yield f"llm_dim {heard.llm_dim} is not hidden_size {text.hidden_size}"
    if (heard.n_mels, heard.kernel_size, heard.adapter_stride) != (128, 3, 2):
        yield "other mel bands, kernels and strides than the published are not served"
    if heard.n_audio_ctx < 50 * SEGMENT_S + 2:
        yield f"n_audio_ctx {heard.n_audio_ctx} is less than {SEGMENT_S} s of sound need"


def _head(heard: HearingSizes) -> int:
    return heard.n_audio_state // max(1, heard.n_audio_head)


USER: Final = 0
# What the authors' examples begin with.
_SYSTEM: Final = "You are a helpful assistant."
_PROMPT_SHARE: Final = 2
# Mel frames of recording and answer that the flow takes, two a token: see the codec's MOST_FRAMES.
MOST_TOKENS: Final = 2500


# The authors' settings where a request says nothing.
_USUAL: Final = PenalisedDrawing(temperature=0.7, top_k=0, top_p=0.9, penalty=1.05)


class ChatTurn(NamedTuple):
    """rows: of sound [rows, dim], in segments. human: whose it is."""

    human: bool
    text: str
    rows: Sequence[Array] = ()


class StepPrompt(NamedTuple):
    """ids: of positions; `audio_patch` where one of `rows` [rows, dim] stands. frames: ids that may
    follow. common: leading positions that are the system's.
    """

    ids: Array
    rows: Array
    frames: int
    common: int

    @property
    def length(self) -> int:
        return len(self.ids)

    def keys(self) -> Sequence[bytes]:
        return keys((self.ids,), self.common)


class StepPrepared(WholeText):
    """A request whose voice and sounds were heard. tokens: of the voice's recording."""

    def __init__(
        self,
        request: SpeechRequest,
        turns: Sequence[ChatTurn],
        tokens: int,
        tokenizer: Qwen2Tokenizer,
        control: ChatIds,
        width: int,
        positions: int,
    ) -> None:
        """width: of rows. positions: of prompt and answer."""
        self.request, self.drawing = request, _USUAL.with_asked(request.sampling)
        self._turns, self._tokenizer, self.control = turns, tokenizer, control
        self._width, self._positions = width, positions
        asked = request.sampling.max_new_tokens or MOST_TOKENS
        self.most_frames = min(asked, MOST_TOKENS - tokens)

    def prompts(self, text: str) -> tuple[StepPrompt]:
        turns = _answered(self._turns, text)
        system = self.request.instructions.strip() or _SYSTEM
        before = self._role("system", system)
        ids = [*before]
        for turn in turns:
            ids += self._turn(turn)
        ids += [*self._opened("assistant\n"), self.control.speak]
        share = self._positions // _PROMPT_SHARE
        limited(len(ids), share, "what was said takes", "leave out the oldest turns", "turns")
        rows = [rows for turn in turns for rows in turn.rows]
        heard = np.concatenate([np.zeros((0, self._width), np.float32), *rows])
        most = min(self.most_frames, self._positions - len(ids))
        return (StepPrompt(np.array(ids, np.int64), heard, most, len(before)),)

    def _turn(self, turn: ChatTurn) -> list[int]:
        if not turn.rows:
            return self._role("human" if turn.human else "assistant", turn.text)
        ids, c = self._opened("human\n"), self.control
        for rows in turn.rows:
            ids += [c.audio_start, *[c.audio_patch] * len(rows), c.audio_end]
        return [*ids, *self._tokenizer.ids(turn.text), self.control.end]

    def _role(self, name: str, text: str) -> list[int]:
        return [*self._opened(f"{name}\n{text}"), self.control.end]

    def _opened(self, text: str) -> list[int]:
        return [self.control.begin, *self._tokenizer.ids(text)]


def _answered(turns: Sequence[ChatTurn], text: str) -> Sequence[ChatTurn]:
    """The turns and the request's own text: with the sound that was said last, or behind it."""
    if not speakable(text):
        if not (turns and turns[-1].human):
            raise NothingToSay("there is nothing to answer", param="input")
        return turns
    if turns and turns[-1].rows and not turns[-1].text:
        return [*turns[:-1], turns[-1]._replace(text=text)]
    return [*turns, ChatTurn(human=True, text=text)]


def turns_of(
    request: SpeechRequest, sounds: Sequence[Arrays | None], segment: int
) -> list[ChatTurn]:
    """What was said before, by the human (USER) or by the model; sounds: rows that were derived of
    each turn's. segment: most rows of one.

    Raises BadRequest for sound of the model's own.
    """
    found = []
    for turn, sound in zip(request.turns, sounds, strict=True):
        human = turn.speaker == USER
        if sound is not None and not human:
            raise BadRequest("this model takes its own turns as text", param="turns")
        rows = () if sound is None else _segments(sound["row"], segment)
        found.append(ChatTurn(human, turn.text.strip(), rows))
    return found


def _segments(rows: Array, most: int) -> Sequence[Array]:
    return [rows[at : at + most] for at in range(0, len(rows), most)]


TOKEN_RATE_HZ: Final = 25.0


class StepStream(AnswerStream):
    """See AnswerStream."""

    def __init__(
        self, prepared: StepPrepared, ids: AnswerIds, tokenizer: Qwen2Tokenizer, vocabulary: int
    ) -> None:
        def spelled(found: Sequence[int]) -> bytes:
            texts = (i for i in found if i < prepared.control.audio_start)
            return b"".join(map(tokenizer.bytes_of, texts))

        super().__init__(prepared, ids, spelled, TOKEN_RATE_HZ)
        self._patch, self._vocabulary = prepared.control.audio_patch, vocabulary

    def positions(self, branch: int) -> Arrays:
        prompt: StepPrompt = self.passage
        width, told = prompt.rows.shape[1], prompt.ids
        ids = np.concatenate([told, self.answered])
        heard = np.zeros(len(ids))
        heard[np.flatnonzero(told == self._patch)] = 1
        rows = np.zeros((len(ids), width))
        rows[heard > 0] = prompt.rows
        return _inputs(ids, heard, rows)

    def drawn(self) -> Arrays:
        width = self.passage.rows.shape[1]
        return _inputs(np.full(1, DRAWN), np.zeros(1), np.zeros((1, width)))

    def begin(self, write: SlotWriter) -> None:
        super().begin(write)
        ids = np.concatenate([self.passage.ids, self.answered])
        seen = np.zeros(self._vocabulary, np.uint8)
        seen[ids] = 1
        write("seen", seen)
        write("drawn", ids[-1])


def _inputs(ids: Array, heard: Array, rows: Array) -> Arrays:
    return {
        "id": ids.astype(np.int64),
        "heard": heard.astype(np.int64),
        "row": rows.astype(np.float32),
    }
