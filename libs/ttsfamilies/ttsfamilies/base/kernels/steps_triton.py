"""A decode step's attention: one program a row, a KV head and a part of the row's past.

Norm, rotation and store of the new token are in the same kernel: the program of a KV head rotates
its few queries and its one key by itself, and that of the first part stores the key and attends to
it, so that no program reads what another one writes. All query heads that share a KV head stand in
the rows of one product. Keys and values are loaded only where the sequence has a position: what
lies in the rest of a block, NaN included, is never read.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor, empty, float32

from ttscommon.engine.kernels.blocks import HeadRotation
from ttsfamilies.base.kernels.frame_triton import arguments_of

# With more, registers are spilled where heads have 128 dimensions.
_KEYS: Final = 32
_LEAST_PART: Final = 128
_LEAST_ROWS: Final = 16  # of a product on tensor cores
_MOST_PARTS: Final = 32
# Positions that one program walks over at the most: a long row among many short ones is cut too.
_LONGEST_PART: Final = 4096


@triton.jit
def _lines(
    here,
    dims,
    mask,
    weight,
    angle,
    cosines,
    sines,
    eps,
    DIM: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ROTATION: tl.constexpr,
):
    """[lines, DIM_BLOCK] float32 at `here`, normed and rotated by halves."""
    x = tl.load(here + dims, mask=mask, other=0.0).to(tl.float32)
    if HAS_ROTATION:
        HALF: tl.constexpr = DIM // 2
        inside, low = dims < DIM, dims < HALF
        across = tl.where(low, dims + HALF, dims - HALF)
        other = tl.load(here + across, mask=mask, other=0.0).to(tl.float32)
        if HAS_NORM:
            scale = tl.rsqrt(tl.sum(x * x, 1) / DIM + eps)[:, None]
            x *= scale * tl.load(weight + dims, mask=inside, other=0.0).to(tl.float32)
            other *= scale * tl.load(weight + across, mask=inside, other=0.0).to(tl.float32)
        at = angle + tl.where(low, dims, dims - HALF)
        sine = tl.load(sines + at, mask=inside, other=0.0)
        cosine = tl.load(cosines + at, mask=inside, other=0.0)
        x = x * cosine + other * tl.where(low, -sine, sine)
    return x


@triton.jit
def attend_rows(
    q,
    k,
    v,
    keys,
    values,
    out,
    mixed_out,
    stats_out,
    q_weight,
    k_weight,
    cosines,
    sines,
    tables,
    positions,
    scale,
    eps,
    table_stride,
    q_row,
    k_row,
    v_row,
    angle_rows,
    angle_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    PARTS: tl.constexpr,
    SLIDING_WINDOW: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ROTATION: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row, kv_head, which = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    kind = keys.dtype.element_ty
    position = tl.load(positions + row).to(tl.int32)
    dims, mine = tl.arange(0, DIM_BLOCK)[None, :], tl.arange(0, ROWS)
    inside = dims < DIM
    real = (mine < GROUP)[:, None] & inside
    angle = row % angle_rows * angle_stride
    asked = q + row * q_row + (kv_head * GROUP + mine)[:, None] * DIM
    queries = _lines(
        asked, dims, real, q_weight, angle, cosines, sines, eps, DIM, HAS_NORM, HAS_ROTATION
    ).to(kind)
    told = k + row * k_row + kv_head * DIM
    new_key = _lines(
        told, dims, inside, k_weight, angle, cosines, sines, eps, DIM, HAS_NORM, HAS_ROTATION
    ).to(kind)
    new_value = tl.load(v + row * v_row + kv_head * DIM + dims, mask=inside, other=0.0).to(kind)
    first = which == 0
    own_page = tl.load(tables + row * table_stride + position // PAGE).to(tl.int64)
    there = ((own_page * PAGE + position % PAGE) * KV_HEADS + kv_head) * DIM + dims
    tl.store(keys + there, new_key, mask=inside & first)
    tl.store(values + there, new_value, mask=inside & first)
    score = tl.sum(queries.to(tl.float32) * new_key.to(tl.float32), 1) * scale
    highest = tl.where(first, score, float("-inf"))
    total = tl.where(first & (mine >= 0), 1.0, 0.0)
    mixed = tl.where(first & (mine >= 0)[:, None], new_value.to(tl.float32), 0.0)
    begin, stop = 0, position
    if SLIDING_WINDOW > 0:
        begin = tl.maximum(0, (position - SLIDING_WINDOW + 1) // KEYS * KEYS)
    if PARTS > 1:
        # Each row's own past is cut, whatever the bound was that the launch was made for.
        part = tl.cdiv(tl.cdiv(stop - begin, PARTS), KEYS) * KEYS
        begin += which * part
        stop = tl.minimum(stop, begin + part)
    for start in range(begin, stop, KEYS):
        at = start + tl.arange(0, KEYS)
        known = at < stop
        page = tl.load(tables + row * table_stride + at // PAGE, mask=known, other=0)
        cached = (page.to(tl.int64) * PAGE + at % PAGE) * KV_HEADS + kv_head
        held = known[:, None] & inside
        offsets = cached[:, None] * DIM + dims
        key = tl.load(keys + offsets, mask=held, other=0.0)
        scores = tl.dot(queries, tl.trans(key), input_precision=PRECISION) * scale
        visible = known[None, :]
        if SLIDING_WINDOW > 0:
            visible = visible & (at[None, :] > position - SLIDING_WINDOW)
        scores = tl.where(visible, scores, float("-inf"))
        peak = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(peak == float("-inf"), 0.0, peak)
        weights = tl.exp(scores - base[:, None])
        shrink = tl.exp(highest - base)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(values + offsets, mask=held, other=0.0)
        added = tl.dot(weights.to(kind), value, input_precision=PRECISION)
        mixed = mixed * shrink[:, None] + added
        highest = peak
    places = row * HEADS + kv_head * GROUP + mine
    if PARTS == 1:
        tl.store(out + places[:, None] * DIM + dims, mixed / total[:, None], mask=real)
    else:
        parts = places * PARTS + which
        tl.store(mixed_out + parts[:, None] * DIM + dims, mixed, mask=real)
        tl.store(stats_out + parts * 2, highest, mask=mine < GROUP)
        tl.store(stats_out + parts * 2 + 1, total, mask=mine < GROUP)


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


def attend_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    positions: Tensor,
    rotation: HeadRotation | None,
    *,
    page: int,
    parts: int,
    sliding_window: int = 0,
) -> Tensor:
    """See attention.attend_step. parts: see `parts_for`."""
    rows, heads, dim = q.shape
    kv_heads = keys.shape[1]
    q, k, v = (x if x.stride()[1:] == (dim, 1) else x.contiguous() for x in (q, k, v))
    out = empty(q.shape, dtype=q.dtype, device=q.device)
    split = (rows, heads, parts) if parts > 1 else (0, 0, 0)
    mixed = empty(*split, dim, dtype=float32, device=q.device)
    stats = empty(*split, 2, dtype=float32, device=q.device)
    q_weight, k_weight, cosines, sines, eps = arguments_of(rotation, unused=keys)
    sizes = {"DIM": dim, "DIM_BLOCK": max(_LEAST_ROWS, triton.next_power_of_2(dim))}
    attend_rows[(rows, kv_heads, parts)](
        *(q, k, v, keys, values, out, mixed, stats, q_weight, k_weight, cosines, sines),
        *(tables, positions, dim**-0.5, eps, tables.stride(0)),
        *(q.stride(0), k.stride(0), v.stride(0), len(cosines), cosines.stride(0)),
        HEADS=heads,
        KV_HEADS=kv_heads,
        ROWS=max(_LEAST_ROWS, triton.next_power_of_2(heads // kv_heads)),
        PAGE=page,
        KEYS=_KEYS,
        PARTS=parts,
        SLIDING_WINDOW=sliding_window,
        HAS_NORM=rotation is not None and rotation.q_weight is not None,
        HAS_ROTATION=rotation is not None,
        PRECISION="ieee" if keys.dtype == float32 else None,
        num_warps=4,
        **sizes,
    )
    if parts > 1:
        block = triton.next_power_of_2(parts)
        combine_parts[(rows * heads,)](
            mixed, stats, out, PARTS=parts, PARTS_BLOCK=block, num_warps=4, **sizes
        )
    return out
