"""One request of Qwen3-TTS on the host: its text, its frames, and which step tells which token.

Frame 0 follows from the prompt; frame n from frame n - 1 and the text token of step n - 1. A step
whose token is not here yet waits for it, or, where late text is padded and the listener would run
dry, is told the pad token; the log says so of the frame that it made, and a successor tells the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER
from ttsfamilies.base.kernels.slots import FED, NO_STEP, PADDED
from ttsfamilies.base.sampling import Rules
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.streams import Plan, Progress, SlotWriter, Taken, TalkerStream
from ttsfamilies.qwen3_tts.config import CONTROL_IDS, MIN_NEW_TOKENS, BackboneConfig, TalkerConfig
from ttsfamilies.qwen3_tts.prompt import Heard as Kind
from ttsfamilies.qwen3_tts.prompt import (
    PromptRequest,
    common_positions,
    layout,
    prompt,
    spoken_frames,
)
from ttsfamilies.qwen3_tts.request import Qwen3Drawing, TurnTokens

_DRAWING: Final = (
    *("temperature", "top_k", "top_p", "penalty"),
    *("subtalker_temperature", "subtalker_top_k", "subtalker_top_p"),
)


class PreparedPrompt(Protocol):
    """What a stream needs of a prepared request; see Qwen3Prepared."""

    @property
    def request(self) -> SpeechRequest: ...
    @property
    def asked(self) -> PromptRequest: ...
    @property
    def drawing(self) -> Qwen3Drawing: ...
    @property
    def speaker(self) -> Array | None: ...
    @property
    def adapter(self) -> int | None: ...


class Qwen3Stream(TalkerStream):
    """See TalkerStream. pads: late text is padded instead of waited for."""

    def __init__(self, prepared: PreparedPrompt, config: TalkerConfig, *, pads: bool) -> None:
        self._prepared, self._config, self._pads = prepared, config, pads
        self._pad = config.tts_pad_token_id
        self._role: tuple[int, ...] = ()
        self._text: list[int] = []
        self._complete = False
        self._prompt: Arrays | None = None
        self._prefix: tuple[bytes, ...] = ()
        self._steps: tuple[int, ...] = ()  # text tokens that are told one a step
        self._codes: list[Array] = []
        self._padded: list[int] = []
        self._taken = 0
        self._ended = self._cached = False
        self._staged = -1  # of `_steps`; -1 when the slot holds nothing of this stream
        self._complete_fed = False  # what the slot holds of `_complete`

    @property
    def frames(self) -> int:
        return len(self._codes)

    def progress(self) -> Progress:
        return Progress(waited=sum(self._padded))

    @property
    def done(self) -> bool:
        return self._ended or self.frames >= self._prepared.drawing.frames

    def feed(self, units: Sequence[TurnTokens], *, final: bool) -> None:
        for unit in units:
            self._role = unit.role
            self._text.extend(unit.ids)
            self._complete = self._complete or unit.complete
        self._complete = self._complete or final
        self._lay_out()

    def _lay_out(self) -> None:
        asked = self._asked()
        parts = layout(self._config, asked)
        if parts is None:
            return
        if self._prompt is None:
            self._prompt = prompt(self._config, asked, parts)
            self._prefix = self._keys(common_positions(asked, parts, rows(self._prompt)))
        self._steps = parts.spoken[parts.in_prompt :]

    def _asked(self) -> PromptRequest:
        """The prompt's request, with the text so far."""
        text, asked = tuple(self._text), self._prepared.asked
        return replace(asked, role=self._role, text=text, complete=self._complete)

    def _keys(self, positions: int) -> tuple[bytes, ...]:
        told = self._prompt
        assert told is not None
        speaker = self._prepared.speaker
        whole = b"" if speaker is None else speaker.astype(np.float32).tobytes()
        if (adapter := self._prepared.request.adapter) is not None:
            whole += bytes.fromhex(adapter.digest)
        return keys(tuple(told.values()), positions, whole)

    def prefix(self) -> Sequence[bytes]:
        return self._prefix

    def restore(self, arrays: Arrays) -> None:
        self._codes = list(arrays["codes"])
        self._padded = arrays["padded"].tolist()
        self._taken = len(self._codes)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        coming = self.frames + ahead
        if self._prompt is None or self.done or coming >= self._prepared.drawing.frames:
            return None
        # Launches in flight tell a token each, but for the one that tells the prompt.
        told = self._fed + (ahead if self.frames else max(0, ahead - 1))
        pads = self._pads and dry
        if coming and not (told < len(self._steps) or self._complete or pads):
            return None
        end = rows(self._prompt) + coming
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    @property
    def _fed(self) -> int:
        """Tokens of `_steps` that the frames so far were told."""
        steps = max(0, self.frames - 1)
        return min(len(self._steps), steps - sum(self._padded[1:]))

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        assert self._prompt is not None
        before = rows(self._prompt)
        first = max(0, plan.start - before)
        frames, uses = self._spoken(first, max(first, plan.end - before))
        whole = concatenate([cut(self._prompt, plan.start, plan.end), frames])
        told: dict[str, Array] = {name: array.astype(np.int64) for name, array in whole.items()}
        told["use"] = np.concatenate([np.zeros(plan.count - len(uses), np.int64), uses])
        if self._prepared.adapter is not None:
            told[ADAPTER] = np.full(plan.count, self._prepared.adapter, np.int64)
        if self._prepared.speaker is not None:
            told["speaker"] = np.zeros((plan.count, len(self._prepared.speaker)), np.float32)
            told["speaker"][whole["heard"] == Kind.SPEAKER] = self._prepared.speaker
        return told

    def _spoken(self, first: int, last: int) -> tuple[Arrays, Array]:
        """Positions of frames first .. last as inputs, and what each does with the text."""
        codebooks = self._config.talker_config.codebooks
        texts, uses = [], []
        at = min(len(self._steps), first - sum(self._padded[1 : first + 1]))
        for step in range(first, last):
            coming = step + 1 == self.frames
            if at < len(self._steps) and (coming or not self._padded[step + 1]):
                texts.append(self._steps[at])
                uses.append(FED)
                at += 1
            else:
                texts.append(self._pad)
                uses.append(PADDED if coming and not self._complete else NO_STEP)
        codes = np.array(self._codes[first:last], np.int16).reshape(-1, codebooks)
        return spoken_frames(codes, texts), np.array(uses, np.int64)

    def stage(self, write: SlotWriter) -> None:
        begins = self._staged < 0
        if begins:
            self._stage_all(write)
        staged = self._staged
        self._stage_steps(write)
        if begins or self._staged > staged:
            write("known", self._staged)
        if begins or self._complete is not self._complete_fed:
            write("complete", int(self._complete))
            self._complete_fed = self._complete

    def _stage_steps(self, write: SlotWriter) -> None:
        """Write the tokens of steps that the slot does not hold yet."""
        if len(self._steps) > self._staged:
            write("text", np.array(self._steps[self._staged :], np.int32), self._staged)
            self._staged = len(self._steps)

    def _stage_all(self, write: SlotWriter) -> None:
        c = self._config.talker_config
        seen = np.zeros(c.vocab_size, np.uint8)
        seen[[codes[0] for codes in self._codes]] = 1
        write("seen", seen)
        write("codes", self._codes[-1] if self._codes else np.zeros(c.codebooks, np.int64))
        write("frame", self.frames)
        write("told", self._fed)
        write("over", 0)
        if self._prepared.adapter is not None:
            write(ADAPTER, self._prepared.adapter)
        write("seed", self._prepared.request.seed)
        for name in _DRAWING:
            write(name, getattr(self._prepared.drawing, name))
        self._staged = 0

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del cached  # always all of what was planned
        self._cached = True
        self._codes.extend(frames["codes"])
        self._padded.extend(frames["padded"].tolist())
        self._ended = self._ended or ended

    def take(self, count: int) -> Taken:
        first, last = self._taken, self._taken + count
        self._taken = last
        taken: Arrays = {
            "codes": np.stack(self._codes[first:last]).astype(np.int16),
            "padded": np.array(self._padded[first:last], np.uint8),
        }
        return Taken(taken)

    def rewind(self, frames: int) -> None:
        if frames < self.frames:
            self._codes, self._padded = self._codes[:frames], self._padded[:frames]
            self._ended = False
        self._cached, self._staged = False, -1


# Sampling of codebook 0, as the official package sets it for transformers' generate.
#
# A penalty on ids heard before, control ids never, the end not within the first two frames; these
# hold under greedy choice as well.


@dataclass(frozen=True)
class Prohibitions:
    """A checkpoint's. suppressed: [codec vocabulary] bool; eos: the id of the end; least: frames
    before which it does not come.
    """

    suppressed: Tensor
    eos: int
    least: int = MIN_NEW_TOKENS

    @classmethod
    def of(
        cls,
        c: BackboneConfig,
        device: torch.device | str = "cpu",
        least: int = MIN_NEW_TOKENS,
    ) -> Prohibitions:
        """The ids that a checkpoint's config names."""
        ids = torch.arange(c.vocab_size, device=device)
        control = ids >= c.vocab_size - CONTROL_IDS
        return cls(control & (ids != c.codec_eos_token_id), c.codec_eos_token_id, least)

    def rules(self, seen: Tensor, made: Tensor, penalty: Tensor) -> Rules:
        """A step's rules: [rows, vocabulary] bool, [rows] int64, [rows] float32; see Rules."""
        return Rules(seen, penalty, made, self.suppressed, self.eos, self.least)
