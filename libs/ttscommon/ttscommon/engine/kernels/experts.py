"""Feed-forward networks of which each row takes a few, grouped by network.

No network has a capacity: rows of one batch do not push each other out.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.blocks import swiglu
from ttscommon.engine.kernels.choice import use_triton

# On the CPU products of fewer rows add up in another order: see ttscommon.engine.nn.exact.
_LEAST_ROWS: Final = 4


def mix_experts(
    x: Tensor, chosen: Tensor, weights: Tensor, gate: Tensor, up: Tensor, down: Tensor
) -> Tensor:
    """The weighted sum of down(silu(gate(row)) * up(row)) over each row's experts.

    x: [rows, dim]; chosen: [rows, few] int64, different ones in a row; weights: [rows, few]
    float32; gate, up: [experts, hidden, dim]; down: [experts, dim, hidden]. Returns [rows, dim].
    On a device nothing is read on the host.
    """
    if use_triton(x):
        from ttscommon.engine.kernels import experts_triton

        each = experts_triton.each_expert(x.contiguous(), chosen, gate, up, down)
    else:
        each = each_expert(x, chosen, gate, up, down)
    return _summed(each, weights).to(x.dtype)


def each_expert(x: Tensor, chosen: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """What every chosen expert says of its row: [rows, few, dim], in plain torch.

    A row's bits depend on the row alone: products are of a whole number of `_LEAST_ROWS` rows.
    """
    found = x.new_zeros(*chosen.shape, x.shape[1])
    for expert in sorted(set(chosen.flatten().tolist())):
        row, place = (chosen == expert).nonzero(as_tuple=True)
        fed = functional.pad(x[row], (0, 0, 0, -len(row) % _LEAST_ROWS))
        inner = torch.cat([functional.linear(fed, w[expert]) for w in (gate, up)], -1)
        # Compiled: torch rounds the last numbers of a tensor otherwise, which fill no vector.
        made = functional.linear(swiglu(inner), down[expert])
        found[row, place] = made[: len(row)]
    return found


def _summed(each: Tensor, weights: Tensor) -> Tensor:
    """[rows, few, dim] by [rows, few] -> [rows, dim], in each row's own order."""
    total = each[:, 0] * weights[:, :1]
    for place in range(1, each.shape[1]):
        total = total + each[:, place] * weights[:, place, None]
    return total
