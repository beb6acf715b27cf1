"""Attention over a paged cache: one program a tile of queries, a KV head and a part of the past.

A tile is up to QUERIES consecutive tokens of one sequence, so a decode step (one token a row) and
a prompt are the same kernel. All query heads that share a KV head stand in the rows of one product.
Keys and values are loaded only where the sequence has a position: what lies in the rest of a block,
NaN included, is never read.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor, empty, float32, zeros

# With more, registers are spilled where heads have 128 dimensions.
_KEYS: Final = 32
_LEAST_PART: Final = 128
_LEAST_ROWS: Final = 16  # of a product on tensor cores
_MOST_PARTS: Final = 32
# Positions that one program walks over at the most: a long row among many short ones is cut too.
_LONGEST_PART: Final = 4096


@triton.jit
def attend_tiles(
    q,
    keys,
    values,
    out,
    mixed_out,
    stats_out,
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
    PARTS: tl.constexpr,
    REACH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    tile, kv_head, which = tl.program_id(0), tl.program_id(1), tl.program_id(2)
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
    if REACH > 0:
        begin = tl.maximum(0, (position - REACH + 1) // KEYS * KEYS)
    if PARTS > 1:
        # Each row's own past is cut, whatever the bound was that the launch was made for.
        part = tl.cdiv(tl.cdiv(stop - begin, PARTS), KEYS) * KEYS
        begin += which * part
        stop = tl.minimum(stop, begin + part)
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
        if REACH > 0:
            visible = visible & (at[None, :] > own[:, None] - REACH)
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
    if PARTS == 1:
        result = mixed / tl.where(total > 0.0, total, 1.0)[:, None]
        tl.store(out + places[:, None] * DIM + dims[None, :], result, mask=real)
    else:
        parts = places * PARTS + which
        tl.store(mixed_out + parts[:, None] * DIM + dims[None, :], mixed, mask=real)
        tl.store(stats_out + parts * 2, highest, mask=query < count)
        tl.store(stats_out + parts * 2 + 1, total, mask=query < count)


@triton.jit
def combine_parts(
    mixed_in,
    stats_in,
    out,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    dims, parts = tl.arange(0, DIM_BLOCK), tl.arange(0, PARTS_BLOCK)
    stats = (place * PARTS + parts) * 2
    highest = tl.load(stats_in + stats, mask=parts < PARTS, other=float("-inf"))
    total = tl.load(stats_in + stats + 1, mask=parts < PARTS, other=0.0)
    weights = tl.exp(highest - tl.max(highest, 0))
    # A part behind the sequence's end wrote nothing that could be added.
    inside = (total > 0.0)[:, None] & (dims < DIM)[None, :]
    offsets = (place * PARTS + parts)[:, None] * DIM + dims[None, :]
    mixed = tl.load(mixed_in + offsets, mask=inside, other=0.0)
    result = tl.sum(mixed * weights[:, None], 0) / tl.sum(total * weights, 0)
    tl.store(out + place * DIM + dims, result, mask=dims < DIM)


def parts_for(tiles: int, kv_heads: int, most: int, processors: int) -> int:
    """Into how many parts the past is cut: enough programs for the device, none of them short, and
    none of a walk that all others would wait for.
    """
    wanted = max(-(-2 * processors // (tiles * kv_heads)), -(-most // _LONGEST_PART))
    return max(1, min(wanted, -(-most // _LEAST_PART), _MOST_PARTS))


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    tiles: Tensor,
    *,
    queries: int,
    page: int,
    parts: int,
    reach: int = 0,
) -> Tensor:
    """See attention.attend. parts: see `parts_for`; 1 for tiles of more queries."""
    tokens, heads, dim = q.shape
    kv_heads = keys.shape[1]
    # Every token of a decode step is in a tile; a prompt's padding is in none.
    make = empty if queries == 1 else zeros
    out = make(q.shape, dtype=q.dtype, device=q.device)
    split = (tokens, heads, parts) if parts > 1 else (0, 0, 0)
    mixed = empty(*split, dim, dtype=float32, device=q.device)
    stats = empty(*split, 2, dtype=float32, device=q.device)
    sizes = {"DIM": dim, "DIM_BLOCK": max(_LEAST_ROWS, triton.next_power_of_2(dim))}
    rows = max(_LEAST_ROWS, triton.next_power_of_2(queries * (heads // kv_heads)))
    attend_tiles[(len(tiles), kv_heads, parts)](
        *(q, keys, values, out, mixed, stats, tables, tiles),
        *(dim**-0.5, tables.stride(0)),
        HEADS=heads,
        KV_HEADS=kv_heads,
        ROWS=rows,
        PAGE=page,
        KEYS=_KEYS,
        PARTS=parts,
        REACH=reach,
        PRECISION="ieee" if q.dtype == float32 else None,
        num_warps=4,
        **sizes,
    )
    if parts > 1:
        block = triton.next_power_of_2(parts)
        combine_parts[(tokens * heads,)](
            mixed, stats, out, PARTS=parts, PARTS_BLOCK=block, num_warps=4, **sizes
        )
    return out
