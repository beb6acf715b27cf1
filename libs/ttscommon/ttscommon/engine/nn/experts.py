"""A mixture of experts in place of a feed-forward network (Shazeer et al., 2017; Qwen2-MoE).

Each row goes to the few experts that its router prefers and, where a model has one, to a shared
expert by a gate of its own. There is no capacity that a batch could use up: a row's experts, and
on the CPU its bits, depend on the row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.experts import mix_experts
from ttscommon.engine.nn.decoder import SwiGLU
from ttscommon.engine.nn.weights import Source, same


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
