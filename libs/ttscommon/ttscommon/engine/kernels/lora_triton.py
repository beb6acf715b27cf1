"""Low-rank products of rows with different adapters, grouped: a program a tile, part and slot.

A program whose tile has no row of its slot returns at once. Rows of other slots take part in a
product as zeros and are not stored, so that a row does not depend on its neighbours.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor, float32

_TILE: Final = 16
_RANKS: Final = 16
_INPUTS: Final = 128
_OUTPUTS: Final = 64


@triton.jit
def _product(
    left,
    right,
    mine,
    wide,
    SIZE: tl.constexpr,
    STEP: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """Rows of SIZE numbers at `left` [TILE] times those at `right` [WIDTH]: [TILE, WIDTH] float32.

    WIDEN: the product is of float32, else of the dtype at `right`.
    """
    at = tl.arange(0, STEP)
    summed = tl.zeros((left.shape[0], right.shape[0]), tl.float32)
    for begin in range(0, SIZE, STEP):
        inside = begin + at < SIZE
        rows = tl.load(
            left[:, None] + (begin + at)[None, :], mask=mine[:, None] & inside[None, :], other=0.0
        )
        columns = tl.load(
            right[None, :] + (begin + at)[:, None], mask=wide[None, :] & inside[:, None], other=0.0
        )
        if WIDEN:
            columns = columns.to(tl.float32)
        summed += tl.dot(rows.to(columns.dtype), columns, input_precision="ieee")
    return summed


@triton.jit
def lora_down(
    x,
    ids,
    a,
    low_out,
    rows,
    RANK: tl.constexpr,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    RANKS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.program_id(2)
    mine = (tl.load(ids + row, mask=row < rows, other=0) == slot + 1) & (row < rows)
    if tl.max(mine.to(tl.int32), 0) > 0:
        rank = tl.program_id(1) * RANKS + tl.arange(0, RANKS)
        from_x = x + row.to(tl.int64) * SIZE
        from_a = a + (slot.to(tl.int64) * RANK + rank) * SIZE
        summed = _product(from_x, from_a, mine, rank < RANK, SIZE, INPUTS, False)
        there = low_out + row.to(tl.int64)[:, None] * RANK + rank[None, :]
        tl.store(there, summed, mask=mine[:, None] & (rank < RANK)[None, :])


@triton.jit
def lora_up(
    low,
    ids,
    b,
    out,
    rows,
    RANK: tl.constexpr,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    RANKS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.program_id(2)
    mine = (tl.load(ids + row, mask=row < rows, other=0) == slot + 1) & (row < rows)
    if tl.max(mine.to(tl.int32), 0) > 0:
        column = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
        from_low = low + row.to(tl.int64) * RANK
        from_b = b + (slot.to(tl.int64) * SIZE + column) * RANK
        summed = _product(from_low, from_b, mine, column < SIZE, RANK, RANKS, True)
        there = out + row.to(tl.int64)[:, None] * SIZE + column[None, :]
        kept = mine[:, None] & (column < SIZE)[None, :]
        summed += tl.load(there, mask=kept, other=0.0).to(tl.float32)
        tl.store(there, summed, mask=kept)


def add_lora(x: Tensor, out: Tensor, ids: Tensor, a: Tensor, b: Tensor) -> None:
    """See ttscommon.engine.kernels.lora.add_lora; contiguous rows."""
    (rows, size), (slots, rank, _) = x.shape, a.shape
    low = x.new_empty(rows, rank, dtype=float32)
    tiles, outputs = triton.cdiv(rows, _TILE), out.shape[1]
    lora_down[(tiles, triton.cdiv(rank, _RANKS), slots)](
        *(x, ids, a, low, rows), RANK=rank, SIZE=size, TILE=_TILE, RANKS=_RANKS, INPUTS=_INPUTS
    )
    lora_up[(tiles, triton.cdiv(outputs, _OUTPUTS), slots)](
        *(low, ids, b, out, rows),
        RANK=rank,
        SIZE=outputs,
        TILE=_TILE,
        RANKS=_RANKS,
        OUTPUTS=_OUTPUTS,
    )
