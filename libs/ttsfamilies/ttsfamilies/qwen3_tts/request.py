"""A request, checked and put into the terms of a checkpoint. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttscommon.wire.replicas import MANY
from ttsfamilies.base.lm.request import (
    LayeredDrawing,
    PenalisedDrawing,
    chosen,
    nothing_to_say,
    plain_text,
    speakable,
)
from ttsfamilies.base.talker.base import Prepared, known_voice, recorded
from ttsfamilies.qwen3_tts.config import NAMES, GenerationConfig, TalkerConfig
from ttsfamilies.qwen3_tts.prompt import InContext, PromptRequest, TurnTokenizer, prompt_positions

TASK_TYPES: Final = {
    "custom_voice": "CustomVoice",
    "voice_design": "VoiceDesign",
    "base": "Base",
}
# Codes beside the names that checkpoints have.
_LANGUAGES: Final = {"": "auto", MANY: "auto", **NAMES}


@dataclass(frozen=True)
class Qwen3Drawing(LayeredDrawing, PenalisedDrawing):
    """frames: that may be spoken at the most."""

    frames: int = 1

    @classmethod
    def of(cls, asked: Sampling, defaults: GenerationConfig) -> Self:
        """The request's settings over the checkpoint's; temperatures of a greedy choice are 0.

        With `max_new_tokens` of N the official package returns N - 1 frames at the most.
        """
        d = defaults
        usual = cls(
            temperature=d.temperature * d.do_sample,
            top_k=d.top_k,
            top_p=d.top_p,
            penalty=d.repetition_penalty,
            subtalker_temperature=d.subtalker_temperature * d.subtalker_dosample,
            subtalker_top_k=d.subtalker_top_k,
            subtalker_top_p=d.subtalker_top_p,
            frames=min(chosen(asked.max_new_tokens, d.max_new_tokens), d.max_new_tokens) - 1,
        )
        return usual.with_asked(asked)


class TurnTokens(NamedTuple):
    """Tokens that are final now. role: those that open the turn; complete: no more follow."""

    role: tuple[int, ...]
    ids: tuple[int, ...]
    complete: bool


class Qwen3Prepared(Prepared):
    """A request that the checkpoint can speak, and its text so far.

    asked: its prompt, but for the text. speaker: the embedding of a cloned voice, if there is one.
    adapter: its rows' id (see Adaptable), None where the checkpoint is served without adapters.
    """

    adapter: int | None = None

    def __init__(
        self,
        request: SpeechRequest,
        asked: PromptRequest,
        drawing: Qwen3Drawing,
        speaker: Array | None,
        tokenizer: TurnTokenizer,
        most_tokens: int,
        positions: int | None = None,
    ) -> None:
        """positions: what the KV cache holds, if that is known."""
        self.request = request
        self.asked, self.drawing, self.speaker = asked, drawing, speaker
        self._text = tokenizer.spoken()
        self._most, self._positions = most_tokens, positions
        self._given = 0
        self._spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[TurnTokens]:
        """Tokens as soon as no later text can change them; raises TextTooLong, NothingToSay."""
        text = "".join(plain_text(piece) for piece in pieces)
        self._spoken = self._spoken or speakable(text)
        if final and not self._spoken:
            raise nothing_to_say()
        # Text before a pause is read as if it had been sent alone, which is without outer space.
        paused = bool(pieces) and isinstance(pieces[-1], Pause)
        self._text.feed(text, final=final, trimmed=final and paused)
        tokens = self._text.tokens
        if len(tokens) > self._most:
            raise TextTooLong(
                f"the text has more than the {self._most} tokens that the model can speak",
                param="input",
            )
        self._check_room(len(tokens))
        new, self._given = tokens[self._given :], len(tokens)
        if new or final:
            yield TurnTokens(self._text.role, new, final)

    def _check_room(self, tokens: int) -> None:
        prompt = prompt_positions(self.asked, tokens)
        needed = prompt + self.drawing.frames
        if self._positions is not None and needed > self._positions:
            raise TextTooLong(
                f"the request may need {needed} positions ({prompt} for what it says before the"
                f" first frame, one a frame) of {self._positions}: say less, or ask for fewer"
                " max_new_tokens",
                param="input",
            )


class RequestReader:
    """Turns requests into what a checkpoint is asked; raises BadRequest for what it cannot do."""

    def __init__(
        self,
        config: TalkerConfig,
        defaults: GenerationConfig,
        tokenizer: TurnTokenizer,
        most_tokens: int,
        positions: int | None = None,
    ) -> None:
        """positions: what the KV cache holds, if that is known."""
        self._config, self._defaults, self._tokenizer = config, defaults, tokenizer
        self._most, self._positions = most_tokens, positions

    def prepare(self, request: SpeechRequest, reference: Arrays | None) -> Qwen3Prepared:
        """Check `request`; `reference` is what was derived of its recording."""
        self._refuse(request)
        cloned = self._config.tts_model_type == "base"
        if cloned:
            reference = recorded(reference)
        asked = PromptRequest(
            role=(),
            text=(),
            complete=False,
            streaming=self._layout(request),
            language=self._language(request.language),
            speaker=self._speaker(request.voice),
            instruction=self._instruction(request.instructions),
            cloned=cloned,
            reference=self._in_context(request, reference) if cloned else None,
        )
        drawing = Qwen3Drawing.of(request.sampling, self._defaults)
        embedding = reference["speaker"] if cloned and reference is not None else None
        return Qwen3Prepared(
            *(request, asked, drawing, embedding),
            *(self._tokenizer, self._most, self._positions),
        )

    def _refuse(self, request: SpeechRequest) -> None:
        kind = TASK_TYPES[self._config.tts_model_type]
        if request.task_type and request.task_type != kind:
            raise BadRequest(f"this model does {kind} only", param="task_type")
        if request.reference is not None and kind != "Base":
            raise BadRequest(f"a {kind} model cannot clone a voice", param="ref_audio")
        if request.instructions and not self._config.takes_instructions:
            raise BadRequest("this model takes no instructions", param="instructions")

    def _layout(self, request: SpeechRequest) -> bool:
        """Whether text is told a token a step. Live text is, as it could not be spoken before its
        end otherwise."""
        if request.whole_text is not None:
            return not request.whole_text
        return not request.text_final or self._config.tts_model_type == "base"

    def _language(self, asked: str) -> str:
        name = _LANGUAGES.get(asked.lower().partition("-")[0], asked.lower())
        if name not in self._config.languages:
            known = ", ".join(self._config.languages)
            raise BadRequest(f"no language {asked!r}; there are {known}", param="language")
        return name

    def _speaker(self, voice: str) -> str | None:
        if self._config.tts_model_type != "custom_voice":
            return None
        known_voice(voice.lower(), self._config.talker_config.spk_id)
        return voice.lower()

    def _instruction(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.turn("user", text)) if text else ()

    def _in_context(self, request: SpeechRequest, reference: Arrays | None) -> InContext | None:
        asked = request.reference
        if asked is None or asked.x_vector_only or reference is None:
            return None
        if not asked.text:
            raise BadRequest(
                "cloning in context needs ref_text, what is said in ref_audio; or ask for"
                " x_vector_only_mode",
                param="ref_text",
            )
        codes = reference["codes"].astype(np.int16)
        return InContext(self._tokenizer.transcript(asked.text), codes)
