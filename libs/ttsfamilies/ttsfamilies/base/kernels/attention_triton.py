"""Attention of prompts over a paged cache: one program a tile of queries and a KV head.

A tile is a few consecutive tokens of one sequence. All query heads that share a KV head stand in
the rows of one product. Keys and values are loaded only where the sequence has a position: what
lies in the rest of a block, NaN included, is never read.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor, float32, zeros_like

# With more, registers are spilled where heads have 128 dimensions.
_KEYS: Final = 32
_LEAST_ROWS: Final = 16  # of a product on tensor cores


@triton.jit
def attend_tiles(
    q,
    keys,
    values,
    out,
    tables,
    tiles,
    scale,
    table_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    SLIDING_WINDOW: tl.constexpr,
    PRECISION: tl.constexpr,
):
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    row = tl.load(tiles + tile * 4)
    first = tl.load(tiles + tile * 4 + 1).to(tl.int64)
    count = tl.load(tiles + tile * 4 + 2)
    position = tl.load(tiles + tile * 4 + 3)
    dims = tl.arange(0, DIM_BLOCK)
    mine = tl.arange(0, ROWS)
    query = mine // GROUP
    head = kv_head * GROUP + mine % GROUP
    places = (first + query) * HEADS + head
    real = (query < count)[:, None] & (dims < DIM)[None, :]
    queries = tl.load(q + places[:, None] * DIM + dims[None, :], mask=real, other=0.0)
    own = position + query
    begin = 0
    stop = position + count
    if SLIDING_WINDOW > 0:
        begin = tl.maximum(0, (position - SLIDING_WINDOW + 1) // KEYS * KEYS)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DIM_BLOCK], tl.float32)
    for start in range(begin, stop, KEYS):
        at = start + tl.arange(0, KEYS)
        known = at < stop
        page = tl.load(tables + row.to(tl.int64) * table_stride + at // PAGE, mask=known, other=0)
        cached = (page.to(tl.int64) * PAGE + at % PAGE) * KV_HEADS + kv_head
        inside = known[:, None] & (dims < DIM)[None, :]
        offsets = cached[:, None] * DIM + dims[None, :]
        key = tl.load(keys + offsets, mask=inside, other=0.0)
        scores = tl.dot(queries, tl.trans(key), input_precision=PRECISION) * scale
        visible = known[None, :] & (at[None, :] <= own[:, None])
        if SLIDING_WINDOW > 0:
            visible = visible & (at[None, :] > own[:, None] - SLIDING_WINDOW)
        scores = tl.where(visible, scores, float("-inf"))
        peak = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(peak == float("-inf"), 0.0, peak)
        weights = tl.exp(scores - base[:, None])
        shrink = tl.exp(highest - base)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(values + offsets, mask=inside, other=0.0)
        added = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
        mixed = mixed * shrink[:, None] + added
        highest = peak
    result = mixed / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(out + places[:, None] * DIM + dims[None, :], result, mask=real)


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    tiles: Tensor,
    *,
    queries: int,
    page: int,
    sliding_window: int = 0,
) -> Tensor:
    """See attention.attend."""
    heads, dim = q.shape[1:]
    kv_heads = keys.shape[1]
    out = zeros_like(q)  # a prompt's padding is in no tile
    attend_tiles[(len(tiles), kv_heads)](
        *(q, keys, values, out, tables, tiles, dim**-0.5, tables.stride(0)),
        HEADS=heads,
        KV_HEADS=kv_heads,
        DIM=dim,
        DIM_BLOCK=max(_LEAST_ROWS, triton.next_power_of_2(dim)),
        ROWS=max(_LEAST_ROWS, triton.next_power_of_2(queries * (heads // kv_heads))),
        PAGE=page,
        KEYS=_KEYS,
        SLIDING_WINDOW=sliding_window,
        PRECISION="ieee" if q.dtype == float32 else None,
        num_warps=4,
    )
    return out
