"""Networks of experts, grouped: a program a tile of one expert's rows and a block of outputs.

Places of a tile beyond its expert's rows take part in the product as zeros and are not stored, so
that a row does not depend on its neighbours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE: Final = 16
_INPUTS: Final = 64
_OUTPUTS: Final = 64


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


@triton.jit
def expert_rise(
    x,
    order,
    tile_expert,
    tile_first,
    tile_stop,
    gate,
    up,
    inner,
    FEW: tl.constexpr,
    SIZE: tl.constexpr,
    HIDDEN: tl.constexpr,
    TILE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    tile = tl.program_id(0)
    place = tl.load(tile_first + tile) + tl.arange(0, TILE)
    mine = place < tl.load(tile_stop + tile)
    if tl.max(mine.to(tl.int32), 0) > 0:
        pair = tl.load(order + place, mask=mine, other=0)
        column = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
        wide = column < HIDDEN
        row = (tl.load(tile_expert + tile).to(tl.int64) * HIDDEN + column) * SIZE
        gated = tl.zeros((TILE, OUTPUTS), tl.float32)
        raised = tl.zeros((TILE, OUTPUTS), tl.float32)
        for begin in range(0, SIZE, INPUTS):
            at = begin + tl.arange(0, INPUTS)
            inside = at < SIZE
            fed = tl.load(
                x + (pair // FEW)[:, None] * SIZE + at[None, :],
                mask=mine[:, None] & inside[None, :],
                other=0.0,
            )
            there = row[None, :] + at[:, None]
            known = wide[None, :] & inside[:, None]
            one = tl.load(gate + there, mask=known, other=0.0)
            other = tl.load(up + there, mask=known, other=0.0)
            gated += tl.dot(fed, one, input_precision="ieee")
            raised += tl.dot(fed, other, input_precision="ieee")
        # Rounded as the plain version rounds the products of narrower weights.
        kind = x.dtype.element_ty
        gated, raised = gated.to(kind).to(tl.float32), raised.to(kind).to(tl.float32)
        made = (gated / (1.0 + tl.exp(-gated))).to(kind).to(tl.float32) * raised
        kept = mine[:, None] & wide[None, :]
        tl.store(inner + pair[:, None] * HIDDEN + column[None, :], made.to(kind), mask=kept)


@triton.jit
def expert_fall(
    inner,
    order,
    tile_expert,
    tile_first,
    tile_stop,
    down,
    out,
    SIZE: tl.constexpr,
    HIDDEN: tl.constexpr,
    TILE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    tile = tl.program_id(0)
    place = tl.load(tile_first + tile) + tl.arange(0, TILE)
    mine = place < tl.load(tile_stop + tile)
    if tl.max(mine.to(tl.int32), 0) > 0:
        pair = tl.load(order + place, mask=mine, other=0)
        column = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
        wide = column < SIZE
        row = (tl.load(tile_expert + tile).to(tl.int64) * SIZE + column) * HIDDEN
        summed = tl.zeros((TILE, OUTPUTS), tl.float32)
        for begin in range(0, HIDDEN, INPUTS):
            at = begin + tl.arange(0, INPUTS)
            inside = at < HIDDEN
            fed = tl.load(
                inner + pair[:, None] * HIDDEN + at[None, :],
                mask=mine[:, None] & inside[None, :],
                other=0.0,
            )
            there = row[None, :] + at[:, None]
            one = tl.load(down + there, mask=wide[None, :] & inside[:, None], other=0.0)
            summed += tl.dot(fed, one, input_precision="ieee")
        kept = mine[:, None] & wide[None, :]
        made = summed.to(out.dtype.element_ty)
        tl.store(out + pair[:, None] * SIZE + column[None, :], made, mask=kept)


def each_expert(x: Tensor, chosen: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """See ttscommon.engine.kernels.experts.each_expert; contiguous rows."""
    (rows, few), (experts, hidden, size) = chosen.shape, gate.shape
    order, expert, first, stop = grouped(chosen, experts, _TILE)
    inner = x.new_empty(rows * few, hidden)
    out = x.new_empty(rows, few, size)
    tiles = len(expert)
    expert_rise[(tiles, triton.cdiv(hidden, _OUTPUTS))](
        *(x, order, expert, first, stop, gate, up, inner),
        FEW=few,
        SIZE=size,
        HIDDEN=hidden,
        TILE=_TILE,
        INPUTS=_INPUTS,
        OUTPUTS=_OUTPUTS,
    )
    expert_fall[(tiles, triton.cdiv(size, _OUTPUTS))](
        *(inner, order, expert, first, stop, down, out),
        SIZE=size,
        HIDDEN=hidden,
        TILE=_TILE,
        INPUTS=_INPUTS,
        OUTPUTS=_OUTPUTS,
    )
    return out
