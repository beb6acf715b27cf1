"""Sizes of a Step-Audio 2 checkpoint, and the ids that all of them share. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, checked_config
from ttscommon.engine.checkpoint_values import head_problems, size_problems
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer

MODEL_TYPE: Final = "step_audio_2"
# Of S3 tokens; the id behind them is padding.
TOKENS: Final = 6561
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
class StepSizes(LlamaSizes):
    """text_config: a Qwen2."""

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
        if found.first_audio + TOKENS >= ids:
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
