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
        at = tl.arange(0, INPUTS)
        summed = tl.zeros((TILE, RANKS), tl.float32)
        from_x = x + row.to(tl.int64)[:, None] * SIZE
        from_a = a + (slot.to(tl.int64) * RANK + rank)[None, :] * SIZE
        for begin in range(0, SIZE, INPUTS):
            inside = begin + at < SIZE
            left = tl.load(
                from_x + (begin + at)[None, :], mask=mine[:, None] & inside[None, :], other=0.0
            )
            right = tl.load(
                from_a + (begin + at)[:, None],
                mask=(rank < RANK)[None, :] & inside[:, None],
                other=0.0,
            )
            summed += tl.dot(left.to(right.dtype), right, input_precision="ieee")
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
        at = tl.arange(0, RANKS)
        summed = tl.zeros((TILE, OUTPUTS), tl.float32)
        from_low = low + row.to(tl.int64)[:, None] * RANK
        from_b = b + (slot.to(tl.int64) * SIZE + column)[None, :] * RANK
        for begin in range(0, RANK, RANKS):
            inside = begin + at < RANK
            left = tl.load(
                from_low + (begin + at)[None, :], mask=mine[:, None] & inside[None, :], other=0.0
            )
            right = tl.load(
                from_b + (begin + at)[:, None],
                mask=(column < SIZE)[None, :] & inside[:, None],
                other=0.0,
            )
            summed += tl.dot(left, right.to(tl.float32), input_precision="ieee")
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
