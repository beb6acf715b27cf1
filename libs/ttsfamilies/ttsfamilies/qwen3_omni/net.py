"""The Qwen3-Omni talker: rows of the thinker and codec ids to codec frames.

Qwen3-TTS's frame, behind a backbone of experts whose positions have three numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import Attend, Decoder, DecoderConfig
from ttscommon.engine.nn.experts import ExpertMixture, ExpertSizes, expert_sources, parted
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttscommon.wire.fields import Array
from ttsfamilies.qwen3_omni.config import PAD, MixtureSizes, OmniConfig, load_config
from ttsfamilies.qwen3_tts.net import (
    FRAME_NAMES,
    FrameNet,
    TextProjection,
    backbone_config,
    predictor_sources,
)

# What a position's row is.
NO_ROW, EMBEDDING, STATE = range(3)


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
