"""Prompt layouts: what every position of the backbone is told. No torch.

A position has a text side (a token, or nothing) and a codec side (nothing, a control id, the
speaker's embedding, or a whole frame); the input is the sum of both. With `streaming`, text beyond
the prompt is told one token a step; without, all of it stands in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.lm.qwen2_tokenizer import GrowingIds, Qwen2Tokenizer
from ttsfamilies.qwen3_tts.config import TalkerConfig

NO_TEXT: Final = -1
ROLE_TOKENS: Final = 3
_MOST_HEADER: Final = 6
_FORCES_DIALECT: Final = ("chinese", "auto")


class Heard(IntEnum):
    """The codec side of a position."""

    NOTHING = 0
    CONTROL = 1  # an id of the codec's vocabulary, in the first code
    FRAME = 2
    SPEAKER = 3  # an embedding that travels beside the ids


def positions(text: Sequence[int], heard: Array, codes: Array) -> Arrays:
    """Inputs of consecutive positions.

    text: [positions] int32, NO_TEXT for none; heard: [positions] uint8, see Heard;
    codes: [positions, codebooks] int16, zeros where there is no frame.
    """
    return {"text": np.array(text, np.int32), "heard": heard.astype(np.uint8), "codes": codes}


@dataclass(frozen=True, eq=False)
class InContext:
    """A reference that is continued: its transcript's tokens, its frames [frames, codebooks]."""

    text: tuple[int, ...]
    codes: npt.NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class PromptRequest:
    """What a prompt is made of.

    role: the three tokens that open the speaker's turn; text: tokens to speak, as far as known;
    complete: no text follows; cloned: a speaker embedding takes the speaker's place.
    """

    role: tuple[int, ...]
    text: tuple[int, ...]
    complete: bool
    streaming: bool
    language: str = "auto"
    speaker: str | None = None
    instruction: tuple[int, ...] = ()
    cloned: bool = False
    reference: InContext | None = None


@dataclass(frozen=True)
class PromptLayout:
    """Which tokens of `spoken` stand in the prompt; the others are told one a step.

    spoken: transcript of the reference, text, and the end token once the text is complete.
    """

    spoken: tuple[int, ...]
    complete: bool
    in_prompt: int

    def step(self, step: int, pad: int) -> int | None:
        """The text token of decode step `step` (0 follows the first frame); None: not known yet."""
        index = self.in_prompt + step
        if index < len(self.spoken):
            return self.spoken[index]
        return pad if self.complete else None


def layout(config: TalkerConfig, r: PromptRequest) -> PromptLayout | None:
    """How the text is divided, or None while too little of it is known."""
    transcript = r.reference.text if r.reference else ()
    ending = (config.tts_eos_token_id,) if r.complete else ()
    spoken = (*transcript, *r.text, *ending)
    if not r.streaming:
        return PromptLayout(spoken, True, len(spoken)) if r.complete else None
    wanted = 1 if r.reference is None else 1 + len(r.reference.codes)
    if len(spoken) < wanted and not r.complete:
        return None
    return PromptLayout(spoken, r.complete, wanted)


def prompt(config: TalkerConfig, r: PromptRequest, parts: PromptLayout) -> Arrays:
    """All positions before the first frame."""
    rows = _Rows(config.talker_config.codebooks)
    for token in (*r.instruction, *r.role):
        rows.add(token)
    _add_header(rows, config, r)
    if r.streaming:
        _add_aligned(rows, config, r, parts)
    else:
        _add_whole(rows, config, r, parts)
    return rows.done()


def common_positions(r: PromptRequest, parts: PromptLayout, count: int) -> int:
    """How many of a prompt's positions come before the first that tells of the text to speak."""
    transcript = len(r.reference.text) if r.reference else 0
    if r.streaming:
        return count - _codec(r) + min(transcript, _codec(r))
    return count - len(parts.spoken) - _codec(r) + transcript


def prompt_positions(r: PromptRequest, text: int) -> int:
    """How many positions a prompt has at the most, with so many tokens of text."""
    transcript, frames = (len(r.reference.text), len(r.reference.codes)) if r.reference else (0, 0)
    told = 1 if r.streaming else transcript + text + 2
    return len(r.instruction) + ROLE_TOKENS + _MOST_HEADER + frames + told


def language_id(config: TalkerConfig, language: str, speaker: str | None) -> int | None:
    """The codec's id of a language, None for "auto"; some speakers force their dialect."""
    c = config.talker_config
    dialect = c.spk_is_dialect.get(speaker.lower(), False) if speaker else False
    if dialect and language.lower() in _FORCES_DIALECT:
        return c.codec_language_id[str(dialect)]
    return None if language.lower() == "auto" else c.codec_language_id[language.lower()]


def spoken_frames(codes: npt.NDArray[np.int16], text: Sequence[int]) -> Arrays:
    """Positions of frames already made, [frames, codebooks], each with its step's text token."""
    if len(codes) != len(text):
        raise ValueError("every frame has one text token")
    return positions(text, np.full(len(codes), Heard.FRAME), codes)


class _Rows:
    def __init__(self, codebooks: int) -> None:
        self._codebooks = codebooks
        self._rows: list[tuple[int, Heard, Any]] = []

    def add(self, text: int, heard: Heard = Heard.NOTHING, codes: Any = 0) -> None:
        self._rows.append((text, heard, codes))

    def done(self) -> Arrays:
        codes = np.zeros((len(self._rows), self._codebooks), np.int16)
        for row, (_, what, value) in zip(codes, self._rows, strict=True):
            if what is Heard.FRAME:
                row[:] = value
            else:
                row[0] = value
        text, heard, _ = zip(*self._rows, strict=True)
        return positions(text, np.array(heard), codes)


def _add_header(rows: _Rows, config: TalkerConfig, r: PromptRequest) -> None:
    c = config.talker_config
    language = language_id(config, r.language, r.speaker)
    ids: tuple[int, ...]
    if language is None:
        ids = (c.codec_nothink_id, c.codec_think_bos_id, c.codec_think_eos_id)
    else:
        ids = (c.codec_think_id, c.codec_think_bos_id, language, c.codec_think_eos_id)
    for number in ids:
        rows.add(config.tts_pad_token_id, Heard.CONTROL, number)
    if r.cloned:
        rows.add(config.tts_pad_token_id, Heard.SPEAKER)
    elif r.speaker:
        rows.add(config.tts_pad_token_id, Heard.CONTROL, c.spk_id[r.speaker.lower()])
    rows.add(config.tts_bos_token_id, Heard.CONTROL, c.codec_pad_id)


def _add_aligned(rows: _Rows, config: TalkerConfig, r: PromptRequest, parts: PromptLayout) -> None:
    texts = [parts.step(i - parts.in_prompt, config.tts_pad_token_id) for i in range(_codec(r))]
    known = [NO_TEXT if text is None else text for text in texts]
    rows.add(known[0], Heard.CONTROL, config.talker_config.codec_bos_id)
    if r.reference is not None:
        for text, codes in zip(known[1:], r.reference.codes, strict=True):
            rows.add(text, Heard.FRAME, codes)


def _codec(r: PromptRequest) -> int:
    return 1 if r.reference is None else 1 + len(r.reference.codes)


def _add_whole(rows: _Rows, config: TalkerConfig, r: PromptRequest, parts: PromptLayout) -> None:
    for token in parts.spoken:
        rows.add(token, Heard.CONTROL, config.talker_config.codec_pad_id)
    rows.add(config.tts_pad_token_id, Heard.CONTROL, config.talker_config.codec_bos_id)
    for codes in [] if r.reference is None else r.reference.codes:
        rows.add(config.tts_pad_token_id, Heard.FRAME, codes)


# The checkpoint's text tokenizer, with the chat template's turns around a text.


# The chat template's opening. A line end that begins a text merges with the template's own, so
# both are tokenised together.
_ROLE: Final = "assistant\n"
_ROLE_TOKENS: Final = 2


class TurnTokenizer(Qwen2Tokenizer):
    """Text to ids. Used by any number of threads."""

    @classmethod
    def load(cls, checkpoint: Path) -> Self:
        """See Qwen2Tokenizer."""
        loaded = super().load(checkpoint)
        if len(loaded.ids(_ROLE)) != _ROLE_TOKENS:
            raise CheckpointError(f"{checkpoint}: the tokenizer divides the word 'assistant'")
        return loaded

    def turn(self, role: str, text: str) -> list[int]:
        """Tokens of a whole turn of the chat template."""
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        return [start, *self.ids(f"{role}\n{text}"), end, *self.ids("\n")]

    def spoken(self) -> GrowingText:
        """The text of the speaker's turn, which may still grow."""
        return GrowingText(self, self.special("<|im_start|>"))

    def transcript(self, text: str) -> tuple[int, ...]:
        """Tokens of a reference's transcript, as they stand before the text to speak."""
        return tuple(self.ids(_ROLE + text)[_ROLE_TOKENS:])


class GrowingText(GrowingIds):
    """The text of a turn as it arrives.

    role: the first three tokens of the turn, known as soon as any token of the text is.
    """

    def __init__(self, tokenizer: TurnTokenizer, start: int) -> None:
        super().__init__(tokenizer, _ROLE)
        self.known = [start]

    @property
    def role(self) -> tuple[int, ...]:
        return tuple(self.known[: 1 + _ROLE_TOKENS])

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of the text that are final."""
        return tuple(self.known[1 + _ROLE_TOKENS :])
