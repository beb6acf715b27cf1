"""Qwen3-Omni's talker in the engine: Qwen3-TTS's steps, told rows of the thinker in place of ids.

The row of the step that comes lies in the slot, and a few behind it, so that a device goes on by
itself. A step whose row its thinker has not made yet is not planned; see OmniStream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import MANY, Gender, Voice
from ttsfamilies.base.kernels.slots import FED
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.qwen3_omni.config import DEFAULTS, OmniConfig
from ttsfamilies.qwen3_omni.facts import FAMILY
from ttsfamilies.qwen3_omni.net import OmniNet, ThinkerTable, load_talker
from ttsfamilies.qwen3_omni.request import RING, OmniPrepared, OmniStream
from ttsfamilies.qwen3_tts.config import GenerationConfig
from ttsfamilies.qwen3_tts.family import FramedTalker, framed
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.request import RequestReader

_GENDERS: Final[Mapping[str, Gender]] = {"chelsie": "female", "ethan": "male", "aiden": "male"}


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Qwen3Omni:
    """A checkpoint's folder; raises CheckpointError."""
    config, net, table = load_talker(folder, device=how.where, dtype=how.dtype)
    tokenizer = TurnTokenizer.load(folder)
    if tokenizer.size > table.size:
        raise CheckpointError(
            f"{folder}: the tokenizer has ids up to {tokenizer.size - 1}, the thinker's"
            f" table {table.size} rows"
        )
    return Qwen3Omni(name, config, net, table, tokenizer)


class Qwen3Omni(FramedTalker):
    """A loaded checkpoint's talker. Text in place of rows is looked up in the thinker's table."""

    def __init__(
        self,
        name: str,
        config: OmniConfig,
        net: OmniNet,
        table: ThinkerTable,
        tokenizer: TurnTokenizer,
        defaults: GenerationConfig = DEFAULTS,
    ) -> None:
        self.make_frames_of(net, least=0)
        self.spec = spec_of(name, config, defaults)
        self._net, self._table, self._tokenizer = net, table, tokenizer
        self._defaults = defaults
        role = (tokenizer.special("<|im_start|>"), *tokenizer.ids("assistant\n"))
        self._opening = table.rows([*config.specials, *role])
        self.fit(self.spec.max_positions)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> OmniPrepared:
        """A text is told as it comes, and in the language that it is in."""
        plain = msgspec.structs.replace(request, language="", whole_text=False)
        told = self._reader.prepare(plain, None)
        told.request = request
        return OmniPrepared(told, self._table.rows, self._table.width, self._positions)

    def fit(self, positions: int) -> None:
        """Half of the positions are for what is told, half for frames, unless a request asks for
        less.
        """
        self._positions = positions
        most = min(self._defaults.max_new_tokens, positions // 2)
        defaults = replace(self._defaults, max_new_tokens=most)
        self._reader = RequestReader(
            *(self._net.config, defaults, self._tokenizer, most - 1),
            streaming=True,
            positions=positions,
        )

    def open(self, prepared: OmniPrepared) -> OmniStream:
        return OmniStream(prepared, self._net.config, self._opening)

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        told = rows.inputs
        x = self._net.embed_rows(told["row"], told["kind"])
        sound = self._net.embed_sound(told["heard"], told["codes"])
        x = x + torch.where(told["heard"][:, None] == 0, 0, sound)
        hidden = self._net.hidden(x, told["places"], attend["backbone"])
        use = told["use"].index_select(0, rows.last)
        return {"hidden": hidden[rows.last], "use": use, "samples": rows.samples}

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        slots = rows.slots
        told, known = state["told"][slots], state["known"][slots]
        here = told < known
        row = state["row"][slots, told % RING]
        row = torch.where(here[:, None], row, self._net.pad.to(row.dtype))
        places = (rows.positions + state["shift"][slots])[:, None].expand(-1, 3)
        x = self._net.step_input(state["codes"][slots], row)
        hidden = self._net.hidden(x, places, attend["backbone"])
        use = torch.where(here, FED, 0)
        return {"hidden": hidden, "use": use, "samples": torch.ones_like(here)}


def spec_of(name: str, config: OmniConfig, defaults: GenerationConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    c = config.as_talker().talker_config
    row = Field((c.text_hidden_size,), "f4")
    text = {
        "row": Field((RING, c.text_hidden_size), "f4"),
        **dict.fromkeys(("known", "complete", "shift"), NUMBER),
    }
    return ModelSpec(
        **stated(FAMILY, name),
        voices=tuple(_voice(speaker) for speaker in c.spk_id),
        **framed(c, text),
        inputs={
            **dict.fromkeys(("heard", "use", "kind"), NUMBER),
            "codes": Field((c.codebooks,), "i8"),
            "row": row,
            "places": Field((3,), "i8"),
        },
        caches={"backbone": c.cache},
        max_positions=c.max_position_embeddings,
        row_width=c.text_hidden_size,
    )


def _voice(speaker: str) -> Voice:
    return Voice(speaker, speaker.replace("_", " ").title(), MANY, _GENDERS.get(speaker))
