"""The network of Zonos: rows of a prefix and columns of codes to logits of nine codebooks.

A row is made on the host, once for a request; what all rows go through is the network's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, named, same, unfilled
from ttscommon.wire.fields import Array
from ttsfamilies.base.lm.codes import CodesTable
from ttsfamilies.base.lm.stepped import BackboneNet
from ttsfamilies.zonos.facts import (
    CODEBOOKS,
    END,
    IDS,
    PHONES,
    ConditionConfig,
    Projection,
    ZonosConfig,
    load_config,
)
from ttsfamilies.zonos.phones import SYMBOLS

Values = Mapping[str, Sequence[float]]


def projection(kind: Projection, inputs: int, outputs: int) -> nn.Module:
    """From a condition's own values to the backbone's width."""
    if kind == "none":
        return nn.Identity()
    first = nn.Linear(inputs, outputs)
    if kind == "linear":
        return first
    return nn.Sequential(first, nn.SiLU(), nn.Linear(outputs, outputs))


class Condition(nn.Module):
    """One condition's values to its row. numbers: scaled to 0..1 over its range, as waves."""

    def __init__(self, c: ConditionConfig, dim: int) -> None:
        super().__init__()
        self.config = c
        self.project = projection(c.projection, c.cond_dim or dim, dim)
        width = c.cond_dim or dim
        if c.type == "FourierConditioner":
            self.weight = nn.Parameter(torch.empty(width // 2, c.input_dim))
        elif c.type == "IntegerConditioner":
            self.int_embedder = nn.Embedding(int(c.max_val - c.min_val) + 1, width)

    def forward(self, values: Tensor) -> Tensor:
        """[values] float32 -> [dim]."""
        c = self.config
        if c.type == "IntegerConditioner":
            values = self.int_embedder(values.long()[0] - int(c.min_val))
        elif c.type == "FourierConditioner":
            waves = 2 * math.pi * ((values - c.min_val) / (c.max_val - c.min_val)) @ self.weight.T
            values = torch.cat((waves.cos(), waves.sin()))
        return self.project(values)


class Conditions(nn.Module):
    """All conditions of a checkpoint, in the order of their rows. Always float32, on the CPU."""

    def __init__(self, configs: Sequence[ConditionConfig], dim: int) -> None:
        super().__init__()
        self.rows = nn.ModuleList(Condition(one, dim) for one in configs)
        self._dim = dim

    @torch.inference_mode()
    def conditioning(self, values: Values) -> Array:
        """[rows, dim] float32; zeros where nothing is known."""
        found = torch.zeros(len(self.rows), self._dim)
        for place, row in enumerate(self.rows):
            assert isinstance(row, Condition)
            if row.config.name in values:
                found[place] = row(torch.tensor(values[row.config.name], dtype=torch.float32))
        return found.numpy()


def condition_sources(net: Conditions, places: Sequence[int]) -> dict[str, Source]:
    """Every parameter's published tensors. places: of each row among the conditioners."""
    found = {}
    for name in net.state_dict():
        _, row, part = name.split(".", 2)
        found[name] = same(f"prefix_conditioner.conditioners.{places[int(row)]}.{part}")
    return found


# Instead of a phone: a column of codes. Below it stand the rows of what a slot is told, and then
# those of what it is not.
COLUMN: Final = -1
_PREFIX: Final = "prefix_conditioner."


def decoder_config(c: ZonosConfig) -> DecoderConfig:
    """The stack of blocks."""
    b = c.backbone
    return DecoderConfig(
        *(b.d_model, b.n_layer, b.heads, b.kv_heads, b.head_dim, b.attn_mlp_d_intermediate),
        eps=b.norm_epsilon,
        rope=RopeConfig(interleaved=True),
        norm="layer",
    )


class ZonosNet(BackboneNet):
    """All that a device computes; `conditions` stay on the host."""

    def __init__(self, config: ZonosConfig) -> None:
        super().__init__()
        self.config = config
        dim, prefix = config.backbone.d_model, config.prefix_conditioner
        self.phones = nn.Embedding(len(SYMBOLS), dim)
        self.unknown = nn.Parameter(torch.empty(len(prefix.rows), dim))
        self.project = projection(prefix.projection, dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.codes = CodesTable(CODEBOOKS, IDS, dim)
        self.backbone = Decoder(decoder_config(config))
        self.heads = nn.Linear(dim, CODEBOOKS * (END + 1), bias=False)

    @property
    def rows(self) -> int:
        """Conditions of a prefix."""
        return len(self.unknown)

    def embed(self, ids: Tensor, codes: Tensor, told: Tensor, owners: Tensor) -> Tensor:
        """Ids [tokens] int64, COLUMN where codes [tokens, CODEBOOKS] stand, or below it the row of
        told [slots, rows * dim] at owners [tokens] or, beyond these, of what nothing is known of ->
        [tokens, dim].
        """
        row = (COLUMN - 1 - ids).clamp(min=0)
        place = row % self.rows
        known = told.view(len(told), self.rows, -1)[owners, place]
        rows = torch.where((row < self.rows)[:, None], known, self.unknown[place])
        raw = torch.where((ids >= 0)[:, None], self.phones(ids.clamp(min=0)), rows)
        prefix = self.norm(self.project(raw.to(self.phones.weight.dtype)))
        return torch.where((ids == COLUMN)[:, None], self.codes(codes), prefix)

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, CODEBOOKS, END + 1] float32."""
        found: Tensor = self.heads(hidden)
        return found.view(len(hidden), CODEBOOKS, END + 1).float()


def sources(net: ZonosNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    every = net.config.prefix_conditioner.conditioners
    phones = next(i for i, one in enumerate(every) if one.name == PHONES)
    unknown = tuple(
        f"{_PREFIX}conditioners.{i}.uncond_vector" for i in range(len(every)) if i != phones
    )
    books = range(CODEBOOKS)
    found = {
        "unknown": Source(unknown, stacked=True),
        "codes.weight": Source(tuple(f"embeddings.{i}.weight" for i in books), (IDS,) * CODEBOOKS),
        "heads.weight": Source(tuple(f"heads.{i}.weight" for i in books), (END + 1,) * CODEBOOKS),
    }
    for layer in range(net.backbone.config.layers):
        # The gate's half comes last there.
        gates = (f"backbone.layers.{layer}.mlp.fc1.weight",)
        found[f"backbone.blocks.{layer}.mlp.gate_up.weight"] = Source(gates, swapped=True)
    embedder = f"{_PREFIX}conditioners.{phones}.phoneme_embedder"
    return found | named(net, {"phones": embedder, **_NAMES})


_NAMES: Final = {
    "norm": f"{_PREFIX}norm",
    "project": f"{_PREFIX}project",
    "backbone.norm": "backbone.norm_f",
    "backbone.blocks.*.attention_norm": "backbone.layers.*.norm",
    "backbone.blocks.*.attention.qkv": "backbone.layers.*.mixer.in_proj",
    "backbone.blocks.*.attention.out": "backbone.layers.*.mixer.out_proj",
    "backbone.blocks.*.mlp_norm": "backbone.layers.*.norm2",
    "backbone.blocks.*.mlp.down": "backbone.layers.*.mlp.fc2",
}


def load_net(checkpoint: Path, device: str, dtype: str) -> tuple[ZonosNet, Conditions]:
    """The network of a checkpoint folder, and its conditions; raises CheckpointError."""
    config, shards = load_config(checkpoint), Shards.of(checkpoint)
    every = config.prefix_conditioner.conditioners
    net = unfilled(ZonosNet, config).to(getattr(torch, dtype))
    conditions = unfilled(Conditions, config.prefix_conditioner.rows, config.backbone.d_model)
    places = [i for i, one in enumerate(every) if one.name != PHONES]
    ours, theirs = sources(net), condition_sources(conditions, places)
    filled(net, ours, shards, others=_names(theirs), device=device)
    return net, filled(conditions, theirs, shards, others=_names(ours))


def _names(stated: Mapping[str, Source]) -> tuple[str, ...]:
    return tuple(name for source in stated.values() for name in source.names)
