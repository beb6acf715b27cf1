"""Qwen3-Omni's talker in the engine: Qwen3-TTS's steps, told rows of the thinker in place of ids.

Qwen3-TTS's frame, behind a backbone of experts whose positions have three numbers. The row of the
step that comes lies in the slot, and a few behind it, so that a device goes on by itself. A step
whose row its thinker has not made yet is not planned; see OmniStream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import Decoder, DecoderConfig
from ttscommon.engine.nn.experts import ExpertMixture, ExpertSizes, expert_sources, parted
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttscommon.wire.fields import NOTHING, Array, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import MANY, Gender, Voice
from ttsfamilies.base.kernels.slots import FED
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.qwen3_omni.config import (
    DEFAULTS,
    NO_ROW,
    PAD,
    STATE,
    MixtureSizes,
    OmniConfig,
    load_config,
)
from ttsfamilies.qwen3_omni.facts import FAMILY
from ttsfamilies.qwen3_omni.request import RING, OmniPrepared, OmniStream
from ttsfamilies.qwen3_tts.config import GenerationConfig
from ttsfamilies.qwen3_tts.family import FramedTalker, framed
from ttsfamilies.qwen3_tts.net import (
    FRAME_NAMES,
    FrameNet,
    TextProjection,
    backbone_config,
    predictor_sources,
)
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.request import RequestReader


def mixture(c: MixtureSizes) -> ExpertSizes:
    """Of one layer."""
    return ExpertSizes(
        dim=c.hidden_size,
        experts=c.num_experts,
        chosen=c.num_experts_per_tok,
        hidden=c.moe_intermediate_size,
        shared=c.shared_expert_intermediate_size,
        renormalised=c.norm_topk_prob,
    )


def stack_config(config: OmniConfig) -> DecoderConfig:
    """The backbone but for its experts."""
    time, height, width = config.talker_config.text_config.sections
    plain = backbone_config(config.as_talker().talker_config)
    return replace(plain, rope=replace(plain.rope, sections=(time, height, width)))


class OmniNet(FrameNet):
    """pad: [thinker dim], the row of text that is over."""

    pad: Tensor

    def __init__(self, config: OmniConfig) -> None:
        super().__init__()
        c = config.talker_config
        sizes, text = mixture(c.text_config), c.text_config
        widths = (c.thinker_hidden_size, text.hidden_size, text.intermediate_size)
        self.text_projection = TextProjection(*widths)
        self.hidden_projection = TextProjection(*widths)
        backbone = Decoder(stack_config(config), lambda _: ExpertMixture(sizes))
        self.add_frame_parts(config.as_talker(), backbone)
        self.register_buffer("pad", torch.zeros(c.thinker_hidden_size), persistent=False)

    def embed_rows(self, rows: Tensor, kinds: Tensor) -> Tensor:
        """Rows [tokens, thinker dim] of any kind [tokens] -> [tokens, dim]."""
        rows, kind = rows.to(self.codec.weight.dtype), kinds[:, None]
        said = torch.where(kind == STATE, self.hidden_projection(rows), self.text_projection(rows))
        return torch.where(kind == NO_ROW, 0, said)

    def step_input(self, codes: Tensor, row: Tensor) -> Tensor:
        """What the backbone hears at a decode step.

        codes: [rows, codebooks] int64, the frame before; row: [rows, thinker dim], what is said at
        this step. Returns [rows, dim].
        """
        row = row.to(self.codec.weight.dtype)
        return self.embed_frame(codes) + self.text_projection(row)

    def hidden(self, x: Tensor, places: Tensor, attend: Attend) -> Tensor:
        """Backbone states [tokens, dim] of inputs [tokens, dim] at places [tokens, 3]."""
        return self.backbone(x, places, attend)


TABLE: Final = "thinker.model.embed_tokens.weight"
OTHERS: Final = ("thinker.", "code2wav.")
# Rows that are kept in memory.
_KEPT: Final = 16_384
_NAMES: Final = {
    "hidden_projection.first": "hidden_projection.linear_fc1",
    "hidden_projection.second": "hidden_projection.linear_fc2",
}


def sources(net: OmniNet, config: OmniConfig) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = named(net, FRAME_NAMES | _NAMES, theirs="talker.")
    stack = decoder_sources(net.backbone.config, "backbone.", "talker.model.")
    found |= {name: source for name, source in stack.items() if ".mlp." not in name}
    sizes = mixture(config.talker_config.text_config)
    for layer in range(net.backbone.config.layers):
        ours, theirs = f"backbone.blocks.{layer}.mlp.", f"talker.model.layers.{layer}.mlp."
        found |= expert_sources(sizes, ours, theirs)
    return found | predictor_sources(net.predictor)


class ThinkerTable:
    """Rows of the thinker's embedding, read from the checkpoint as they are asked for.

    The table has as many numbers as a tenth of the talker, and a text needs a few of its rows.
    """

    def __init__(self, shards: Shards, width: int) -> None:
        """Raises CheckpointError where the table is missing or of another width."""
        shape = shards.shapes.get(TABLE)
        if shape is None:
            raise CheckpointError(f"{shards.where('').parent} lacks {TABLE}")
        if len(shape) != 2 or shape[1] != width:
            raise CheckpointError(
                f"{shards.where(TABLE)}: {TABLE} is {list(shape)}, but config.json makes its rows"
                f" {width} wide"
            )
        self.width, self.size = width, shape[0]
        self._shards, self._lock = shards, Lock()
        self._known: dict[int, Array] = {}

    def rows(self, ids: Sequence[int]) -> list[Array]:
        """A row [width] float32 for each id; from any thread. Raises CheckpointError."""
        with self._lock:
            missing = [i for i in dict.fromkeys(ids) if i not in self._known]
            if missing:
                if len(self._known) + len(missing) > _KEPT:
                    self._known.clear()
                    missing = list(dict.fromkeys(ids))
                found = self._shards.rows(TABLE, missing).float().numpy()
                self._known |= dict(zip(missing, found, strict=True))
            return [self._known[i] for i in ids]


def load_talker(
    checkpoint: Path, *, device: str = "cpu", dtype: str = "float32"
) -> tuple[OmniConfig, OmniNet, ThinkerTable]:
    """The talker of a checkpoint folder; raises CheckpointError."""
    config, shards = load_config(checkpoint), Shards.of(checkpoint)
    table = ThinkerTable(shards, config.talker_config.thinker_hidden_size)
    net = unfilled(OmniNet, config).to(getattr(torch, dtype))
    net.keep_float32()
    filled(net, sources(net, config), parted(shards), others=OTHERS, device=device)
    net.pad.copy_(torch.from_numpy(table.rows(config.specials)[PAD]))
    return config, net, table


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
            self._net.config, defaults, self._tokenizer, most - 1, positions
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
