"""A mixture of experts in place of a feed-forward network (Shazeer et al., 2017; Qwen2-MoE).

Each row goes to the few experts that its router prefers and, where a model has one, to a shared
expert by a gate of its own. There is no capacity that a batch could use up: a row's experts, and
on the CPU its bits, depend on the row alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.experts import mix_experts
from ttscommon.engine.nn.decoder import SwiGLU
from ttscommon.engine.nn.weights import Shards, Source, Tensors, same

_FUSED: Final = (".experts.gate_up_proj", ".experts.down_proj")


@dataclass(frozen=True)
class ExpertSizes:
    """chosen: experts a row. hidden: of each; shared: of the shared expert, 0 for none.

    renormalised: the weights of the chosen experts add up to one.
    """

    dim: int
    experts: int
    chosen: int
    hidden: int
    shared: int = 0
    renormalised: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.chosen <= self.experts:
            raise ValueError(f"{self.chosen} experts of {self.experts} cannot be chosen")


class ExpertMixture(nn.Module):
    """gate, up: [experts, hidden, dim]; down: [experts, dim, hidden].

    router: a row for each expert, and behind them the gate of the shared one.
    """

    def __init__(self, c: ExpertSizes) -> None:
        super().__init__()
        self.sizes = c
        self.router = nn.Linear(c.dim, c.experts + bool(c.shared), bias=False)
        self.gate = nn.Parameter(torch.empty(c.experts, c.hidden, c.dim))
        self.up = nn.Parameter(torch.empty(c.experts, c.hidden, c.dim))
        self.down = nn.Parameter(torch.empty(c.experts, c.dim, c.hidden))
        if c.shared:
            self.shared = SwiGLU(c.dim, c.shared)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        rows = x.flatten(0, -2)
        logits = self.router(rows)
        weights, chosen = self.route(logits[:, : self.sizes.experts])
        mixed = mix_experts(rows, chosen, weights, self.gate, self.up, self.down)
        if self.sizes.shared:
            mixed = mixed + logits[:, -1:].sigmoid() * self.shared(rows)
        return mixed.view(x.shape)

    def route(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, experts] -> weights [rows, chosen] float32 and experts [rows, chosen] int64."""
        weights, chosen = logits.float().softmax(-1).topk(self.sizes.chosen, -1)
        if self.sizes.renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen


def expert_sources(c: ExpertSizes, ours: str, theirs: str) -> dict[str, Source]:
    """An `ExpertMixture` as checkpoints have it, an expert a name; what both begin with."""

    def each(part: str) -> Source:
        names = (f"{theirs}experts.{i}.{part}_proj.weight" for i in range(c.experts))
        return Source(tuple(names), stacked=True)

    found = {f"{ours}{part}": each(part) for part in ("gate", "up", "down")}
    if not c.shared:
        return found | {f"{ours}router.weight": same(f"{theirs}gate.weight")}
    shared, routers = f"{theirs}shared_expert", (f"{theirs}gate", f"{theirs}shared_expert_gate")
    both = tuple(f"{shared}.{part}_proj.weight" for part in ("gate", "up"))
    return found | {
        f"{ours}router.weight": Source(tuple(f"{r}.weight" for r in routers), (c.experts, 1)),
        f"{ours}shared.gate_up.weight": Source(both, (c.shared, c.shared)),
        f"{ours}shared.down.weight": same(f"{shared}.down_proj.weight"),
    }


class PartedExperts:
    """See Tensors: experts that transformers 5 saves in one tensor, an expert a name again."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._shapes = {n: s for n, s in shards.shapes.items() if not n.endswith(_FUSED)}
        self._places: dict[str, tuple[str, int, int]] = {}
        for name in shards.shapes.keys() - self._shapes.keys():
            self._part(name)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def _part(self, name: str) -> None:
        experts, rows, width = self._shards.shapes[name]
        home, _, kind = name.rpartition(".")
        parts = kind.removesuffix("_proj").split("_")  # the gate's rows, then those of up
        for expert in range(experts):
            for at, part in enumerate(parts):
                one = f"{home}.{expert}.{part}_proj.weight"
                self._shapes[one] = (rows // len(parts), width)
                self._places[one] = (name, expert, at)

    def read(self, name: str) -> Tensor:
        if name not in self._places:
            return self._shards.read(name)
        fused, expert, at = self._places[name]
        rows = self._shapes[name][0]
        return self._shards.rows(fused, [expert])[0, at * rows : (at + 1) * rows]

    def where(self, name: str) -> Path:
        return self._shards.where(self._places.get(name, (name,))[0])


def parted(shards: Shards) -> Tensors:
    """A checkpoint's tensors with an expert a name, however they were saved."""
    return PartedExperts(shards) if any(n.endswith(_FUSED) for n in shards.shapes) else shards
