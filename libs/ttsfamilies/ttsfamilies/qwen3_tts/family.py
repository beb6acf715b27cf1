"""Qwen3-TTS in the engine: one frame a step, its 15 residual codes inside the step.

The backbone's cache is paged and the runner's; the code predictor's lives within a frame and is
scratch. Text that is told one token a step lies in the slot, so that a device goes on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER
from ttsfamilies.base.kernels.slots import NUMBERS, REALS, move_on, next_text, settings
from ttsfamilies.base.lm.codes import Picks
from ttsfamilies.base.runners.computation import (
    Attend,
    Out,
    Prompts,
    Rows,
    SlotTensors,
    TwoPartComputation,
)
from ttsfamilies.base.runners.model import AdaptedParts, AdaptingModel, TalkerModel
from ttsfamilies.base.talker.base import NUMBER, REAL, ModelSpec, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.qwen3_tts.cloning import Cloning
from ttsfamilies.qwen3_tts.config import (
    CODEBOOK0_SIZE,
    MIN_NEW_TOKENS,
    BackboneConfig,
    GenerationConfig,
    TalkerConfig,
    load_config,
    load_generation_config,
    voice_of,
)
from ttsfamilies.qwen3_tts.facts import FAMILY
from ttsfamilies.qwen3_tts.net import (
    FrameNet,
    TalkerNet,
    choose_codes,
    embed_positions,
    load_encoders,
    load_talker,
    talker_sources,
)
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.request import Qwen3Prepared, RequestReader
from ttsfamilies.qwen3_tts.stream import Prohibitions, Qwen3Stream

# Frames of a backbone's states: codebook 0, its 15 residual codes, and the books of a slot.
#
# What Qwen3-TTS and Qwen3-Omni have in common, whatever tells the backbone of the text.


class FramedTalker(TalkerModel, TwoPartComputation):
    """The second part of prompts and steps. A subclass has the first; see TwoPartComputation."""

    fixed_prompts = True

    def make_frames_of(self, net: FrameNet, least: int = MIN_NEW_TOKENS) -> None:
        """To be called before anything is computed. least: see Prohibitions."""
        c, weight = net.config.talker_config, net.codec.weight
        self._frames = net
        self._never = Prohibitions.of(c, weight.device, least)
        self.cache_dtype = weight.dtype
        self.hidden = {
            "hidden": ((c.hidden_size,), weight.dtype),
            "use": ((), torch.int64),
            "samples": ((), torch.bool),
        }

    def rows(self, ids: Callable[[], Tensor]) -> AbstractContextManager[None]:
        """See AdaptingModel, for those that are."""
        return nullcontext()

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """Make each row's frame, and move the rows' state on.

        Products take the padding along, for the sake of exactness; state leaves it out.
        """
        old = settings(state, slots)
        with self.rows(lambda: state[ADAPTER].index_select(0, slots)):
            logits, codes = choose_codes(
                *(self._frames, self._never, hidden["hidden"], old["seen"], old["frame"]),
                *(old["penalty"], Picks.of(old, self.noise(old["seed"], old["frame"]))),
            )
        told = hidden["use"], hidden["samples"], logits, codes, self._never.eos
        moved = move_on(state, slots, real, *told)
        frames = {"codes": moved.codes, "padded": moved.padded}
        return Out(frames, moved.gained, moved.ended, moved.bad)


_NUMBERS: Final = {
    **dict.fromkeys((*NUMBERS, "told", "over"), NUMBER),
    **dict.fromkeys(REALS, REAL),
}


def framed(c: BackboneConfig, text: Mapping[str, Field]) -> dict[str, Any]:
    """Of a specification: what is logged of a frame, and a slot's state with that of its text."""
    codes, seen = Field((c.codebooks,), "i8"), Field((c.vocab_size,), "u1")
    return {
        "frame": {"codes": Field((c.codebooks,), "i2", CODEBOOK0_SIZE)},
        "replay": {"padded": Field((), "u1", 2)},
        "state": {"codes": codes, "seen": seen, **text, **_NUMBERS},
    }


# A text has at most 20,000 characters; one of these tokens is most often several of them.
MOST_TOKENS: Final = 8192
# Whether training had the whole model, its talker, or that one's backbone in hand.
_ROOTS: Final = ("", "talker.", "talker.model.")


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Qwen3Tts:
    """A checkpoint's folder; raises CheckpointError."""
    tokenizer, defaults = TurnTokenizer.load(folder), load_generation_config(folder)
    known = load_config(folder).talker_config.text_vocab_size
    if tokenizer.size > known:
        raise CheckpointError(
            f"{folder}: the tokenizer has ids up to {tokenizer.size - 1}, config.json's"
            f" text_vocab_size is {known}"
        )
    net = load_talker(folder, device=how.where, dtype=how.dtype)
    cloning = None
    if net.config.tts_model_type == "base":
        cloning = Cloning(*load_encoders(folder, device=how.where))
    return Qwen3Tts(name, net, tokenizer, defaults, cloning=cloning, pads=how.pads)


class Qwen3Tts(AdaptingModel, FramedTalker):
    """A loaded checkpoint.

    cloning: of a Base checkpoint. pads: late text is padded instead of waited for.
    """

    def __init__(
        self,
        name: str,
        net: TalkerNet,
        tokenizer: TurnTokenizer,
        defaults: GenerationConfig,
        *,
        cloning: Cloning | None = None,
        pads: bool = False,
    ) -> None:
        self.make_frames_of(net)
        self.recordings = cloning
        self.spec = spec_of(name, net.config, defaults)
        self._net, self._pads = net, pads
        self._defaults, self._tokenizer = defaults, tokenizer
        self._reader = self._reading(defaults)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Qwen3Prepared:
        prepared = self._reader.prepare(request, derived.reference)
        prepared.adapter = self.row_of(request)
        return prepared

    def fit(self, positions: int) -> None:
        """Half of the positions are for text, half for frames, unless a request asks for less."""
        most = min(self._defaults.max_new_tokens, positions // 2)
        self._reader = self._reading(replace(self._defaults, max_new_tokens=most), positions)

    def _reading(self, defaults: GenerationConfig, positions: int | None = None) -> RequestReader:
        most = _most_tokens(defaults)
        return RequestReader(self._net.config, defaults, self._tokenizer, most, positions)

    def adapted_parts(self) -> AdaptedParts:
        """The backbone, the code predictor and what stands around them."""
        return AdaptedParts(self._net, talker_sources(self._net), _ROOTS)

    def open(self, prepared: Qwen3Prepared) -> Qwen3Stream:
        return Qwen3Stream(prepared, self._net.config, pads=self._pads)

    def example_reference(self) -> Arrays | None:
        c = self._net.config.talker_config
        if self._net.config.tts_model_type != "base":
            return None
        return {"speaker": np.zeros(c.hidden_size, np.float32)}

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        told = rows.inputs
        speaker = told.get("speaker", self._net.codec.weight[:1])
        with self.rows(lambda: told[ADAPTER]):
            x = embed_positions(self._net, told["text"], told["heard"], told["codes"], speaker)
            hidden = self._net.hidden(x, rows.positions, attend["backbone"])
        use = told["use"].index_select(0, rows.last)
        return {"hidden": hidden[rows.last], "use": use, "samples": rows.samples}

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        slots, net = rows.slots, self._net
        text, use = next_text(state, slots, net.config.tts_pad_token_id)
        with self.rows(lambda: state[ADAPTER][slots]):
            x = net.step_input(net.embed_frame(state["codes"], slots), text)
            hidden = net.hidden(x, rows.positions, attend["backbone"])
        return {"hidden": hidden, "use": use, "samples": torch.ones_like(use, dtype=torch.bool)}


def _most_tokens(defaults: GenerationConfig) -> int:
    """A token needs a frame at the least, where text is told one a step."""
    return min(MOST_TOKENS, defaults.max_new_tokens) - 1


def spec_of(name: str, config: TalkerConfig, defaults: GenerationConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    c = config.talker_config
    codes = Field((c.codebooks,), "i8")
    inputs = {**dict.fromkeys(("text", "heard", "use"), NUMBER), "codes": codes}
    if config.tts_model_type == "base":
        inputs["speaker"] = Field((c.hidden_size,), "f4")
    text = {"text": Field((MOST_TOKENS,), "i4"), "known": NUMBER, "complete": NUMBER}
    without = {ADAPTER} if config.takes_instructions else {ADAPTER, "instructions"}
    if config.tts_model_type != "base":
        without |= {"ref_audio", "ref_text", "x_vector_only_mode"}
    return ModelSpec(
        **stated(FAMILY, name, without=without),
        voices=tuple(voice_of(id, config.languages) for id in c.spk_id),
        **framed(c, text),
        inputs=inputs,
        caches={"backbone": c.cache},
        languages=config.languages,
        max_positions=min(c.max_position_embeddings, 2 * MOST_TOKENS + defaults.max_new_tokens),
    )
