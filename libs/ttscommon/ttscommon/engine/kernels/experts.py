"""Feed-forward networks of which each row takes a few, grouped by network.

No network has a capacity: rows of one batch do not push each other out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.choice import use_triton

# On the CPU products of fewer rows add up in another order: see ttscommon.engine.nn.rows.
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
        inner = functional.linear(fed, gate[expert]), functional.linear(fed, up[expert])
        made = functional.linear(functional.silu(inner[0]) * inner[1], down[expert])
        found[row, place] = made[: len(row)]
    return found


def _summed(each: Tensor, weights: Tensor) -> Tensor:
    """[rows, few, dim] by [rows, few] -> [rows, dim], in each row's own order."""
    total = each[:, 0] * weights[:, :1]
    for place in range(1, each.shape[1]):
        total = total + each[:, place] * weights[:, place, None]
    return total


class Groups(NamedTuple):
    """Pairs of a row and an expert, sorted by expert, in tiles of one expert each.

    order: [pairs] int64, the pair at each place; expert, first: [tiles] int32, a tile's expert and
    its first place; stop: [tiles] int32, the end of that expert's places, 0 for tiles that are not
    needed. There are as many tiles as any choice could need, so that shapes are fixed.
    """

    order: Tensor
    expert: Tensor
    first: Tensor
    stop: Tensor


def grouped(chosen: Tensor, experts: int, tile: int) -> Groups:
    """Group [rows, few] choices; nothing is read on the host."""
    flat = chosen.flatten()
    pairs = len(flat)
    counts = torch.zeros(experts, dtype=torch.int64, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    ends = counts.cumsum(0)
    tiles = (counts + tile - 1) // tile
    last = tiles.cumsum(0)
    at = torch.arange(min(pairs, pairs // tile + experts), device=flat.device)
    expert = torch.searchsorted(last, at, right=True)
    needed = expert < experts
    known = expert.clamp(max=experts - 1)
    first = ends[known] - counts[known] + (at - last[known] + tiles[known]) * tile
    stop = torch.where(needed, ends[known], 0)
    return Groups(flat.argsort(stable=True), known.int(), first.int(), stop.int())
