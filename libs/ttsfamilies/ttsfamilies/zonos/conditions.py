"""Conditions of a prompt, each a row: emotion, pitch, rate, language, and who speaks.

A row is made on the host, once for a request; what all rows go through is the network's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Source, same
from ttscommon.wire.fields import Array
from ttsfamilies.zonos.config import ConditionConfig, Projection

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
        row: Tensor = self.project(values)
        return row


class Conditions(nn.Module):
    """All conditions of a checkpoint, in the order of their rows. Always float32, on the CPU."""

    def __init__(self, configs: Sequence[ConditionConfig], dim: int) -> None:
        super().__init__()
        self.rows = nn.ModuleList(Condition(one, dim) for one in configs)
        self._dim = dim

    @torch.inference_mode()
    def told(self, values: Values) -> Array:
        """[rows, dim] float32; zeros where nothing is known."""
        found = torch.zeros(len(self.rows), self._dim)
        for place, row in enumerate(self.rows):
            assert isinstance(row, Condition)
            if row.config.name in values:
                found[place] = row(torch.tensor(values[row.config.name], dtype=torch.float32))
        made: Array = found.numpy()
        return made


def condition_sources(net: Conditions, places: Sequence[int]) -> dict[str, Source]:
    """Every parameter's published tensors. places: of each row among the conditioners."""
    found = {}
    for name in net.state_dict():
        _, row, part = name.split(".", 2)
        found[name] = same(f"prefix_conditioner.conditioners.{places[int(row)]}.{part}")
    return found
