"""Attention over a window whose keys and values lie in a ring of their stream's state.

A program has a row and head to itself: it attends for all new steps, and only then replaces the
oldest of the ring by them. Nothing else of the state is read or moved.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from ttsfamilies.base.codec.kernels.rows import StateRows

_LEAST: Final = 16  # rows and columns of a product
_KEYS: Final = 32


@triton.jit
def _place(position, RING: tl.constexpr):
    """Where a position >= -RING lies in the ring."""
    return (position + RING) % RING


@triton.jit
def _mix(query, key, value, visible, peak, total, mixed):
    """Attention of queries [steps, dim] so far and over further keys [keys, dim]."""
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")
    scores = tl.where(visible, scores, float("-inf"))
    highest = tl.maximum(peak, tl.max(scores, 1))
    base = tl.where(highest == float("-inf"), 0.0, highest)
    weights, shrink = tl.exp(scores - base[:, None]), tl.exp(peak - base)
    mixed = tl.dot(weights, value, mixed * shrink[:, None], input_precision="ieee")
    return highest, total * shrink + tl.sum(weights, 1), mixed


@triton.jit
def attend_rings(
    q,
    k,
    v,
    keys,
    values,
    out,
    slots,
    positions,
    lengths,
    scale,
    slot_stride,
    k_row,
    k_step,
    v_row,
    v_step,
    STEPS: tl.constexpr,
    STEPS_BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    RING: tl.constexpr,
    RING_BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):
    row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    position = tl.load(positions + row).to(tl.int32)
    length = tl.load(lengths + row).to(tl.int32)
    step, at = tl.arange(0, STEPS_BLOCK), tl.arange(0, DIM_BLOCK)
    own, dims = position + step, (at < DIM)[None, :]
    new = (step < STEPS)[:, None] & dims
    state = tl.load(slots + row) * slot_stride + kv_head * DIM
    k_here = k + row * k_row + step[:, None] * k_step + kv_head * DIM + at[None, :]
    v_here = v + row * v_row + step[:, None] * v_step + kv_head * DIM + at[None, :]
    reached = (step[None, :] <= step[:, None]) & (step[:, None] - step[None, :] <= RING)
    for of in tl.static_range(GROUP):
        head = kv_head * GROUP + of
        here = ((row * STEPS + step[:, None]) * HEADS + head) * DIM + at[None, :]
        query = tl.load(q + here, mask=new, other=0.0) * scale
        peak = tl.full([STEPS_BLOCK], float("-inf"), tl.float32)
        total = tl.zeros([STEPS_BLOCK], tl.float32)
        mixed = tl.zeros([STEPS_BLOCK, DIM_BLOCK], tl.float32)
        for begin in range(0, RING, RING_BLOCK):
            ring = begin + tl.arange(0, RING_BLOCK)
            # The last position before this launch that lies in each place of the ring.
            latest = position - 1 - _place((position - 1 - ring) % RING, RING)
            held = (ring < RING) & (latest >= 0)
            cached = state + ring[:, None] * (KV_HEADS * DIM) + at[None, :]
            key = tl.load(keys + cached, mask=held[:, None] & dims, other=0.0)
            value = tl.load(values + cached, mask=held[:, None] & dims, other=0.0)
            near = held[None, :] & (own[:, None] - latest[None, :] <= RING)
            peak, total, mixed = _mix(query, key, value, near, peak, total, mixed)
        key = tl.load(k_here, mask=new, other=0.0)
        value = tl.load(v_here, mask=new, other=0.0)
        peak, total, mixed = _mix(query, key, value, reached, peak, total, mixed)
        tl.store(out + here, mixed / total[:, None], mask=new)
    tl.debug_barrier()  # all threads have read what is written now
    kept = ((step < length) & (step >= length - RING))[:, None] & dims
    there = state + _place(own % RING, RING)[:, None] * (KV_HEADS * DIM) + at[None, :]
    tl.store(keys + there, tl.load(k_here, mask=kept, other=0.0), mask=kept)
    tl.store(values + there, tl.load(v_here, mask=kept, other=0.0), mask=kept)


def attend_ring(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: StateRows,
    positions: Tensor,
) -> Tensor:
    """Attention of new steps over those that the ring holds and over each other.

    q: [rows, steps, heads, head_dim]; k, v: likewise, of KV heads; positions: [rows] int64 of the
    first new step, 0 for a row that begins anew. keys, values: [states + 1, ring, kv_heads,
    head_dim] of one layer, moved on by the rows' real steps. A step sees itself and as many before
    it as the ring holds. All float32. Returns q's shape.
    """
    batch, steps, heads, dim = q.shape
    ring, kv_heads = keys.shape[1:3]
    k, v = (x if x.stride()[2:] == (dim, 1) else x.contiguous() for x in (k, v))
    q = q.contiguous()
    out = q.new_empty(q.shape)
    assert keys.stride() == values.stride()
    assert keys.stride()[1:] == (kv_heads * dim, dim, 1)
    attend_rings[(batch, kv_heads)](
        *(q, k, v, keys, values, out, rows.slots, positions, rows.lengths, dim**-0.5),
        *(keys.stride(0), *k.stride()[:2], *v.stride()[:2]),
        STEPS=steps,
        STEPS_BLOCK=max(_LEAST, triton.next_power_of_2(steps)),
        HEADS=heads,
        KV_HEADS=kv_heads,
        DIM=dim,
        DIM_BLOCK=max(_LEAST, triton.next_power_of_2(dim)),
        RING=ring,
        RING_BLOCK=_KEYS,
        GROUP=heads // kv_heads,
    )
    return out
