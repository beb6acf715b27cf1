"""Attention within a frame in one kernel; a program for each row and KV head.

A frame has so few positions that all of them are held at once, and so few queries that products
are sums: the matrix units would want 16 rows. All arithmetic is float32.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def attend_frames(
    q,
    k,
    v,
    keys,
    values,
    out,
    filled,
    v_row,
    v_new,
    cache_row,
    scale,
    NEW: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at, position = tl.arange(0, DIM_BLOCK), tl.arange(0, POSITIONS)
    inside = (at < DIM)[None, :]
    new = position - filled
    known = (position < filled)[:, None] & inside
    fresh = ((new >= 0) & (new < NEW))[:, None] & inside
    there = row * cache_row + (position[:, None] * KV_HEADS + head) * DIM + at[None, :]
    k_here = ((row * NEW + new[:, None]) * KV_HEADS + head) * DIM + at[None, :]
    v_here = row * v_row + new[:, None] * v_new + head * DIM + at[None, :]
    new_key = tl.load(k + k_here, mask=fresh, other=0.0).to(tl.float32)
    new_value = tl.load(v + v_here, mask=fresh, other=0.0).to(tl.float32)
    key = tl.load(keys + there, mask=known, other=0.0).to(tl.float32) + new_key
    value = tl.load(values + there, mask=known, other=0.0).to(tl.float32) + new_value
    tl.store(keys + there, new_key, mask=fresh)
    tl.store(values + there, new_value, mask=fresh)
    for query in tl.static_range(NEW * GROUP):
        of, one = query // GROUP, head * GROUP + query % GROUP
        line = ((row * NEW + of) * KV_HEADS * GROUP + one) * DIM + at
        asked = tl.load(q + line, mask=at < DIM, other=0.0).to(tl.float32) * scale
        score = tl.sum(key * asked[None, :], 1)
        score = tl.where(position <= filled + of, score, float("-inf"))
        weight = tl.exp(score - tl.max(score, 0))
        mixed = tl.sum(value * (weight / tl.sum(weight, 0))[:, None], 0)
        tl.store(out + line, mixed, mask=at < DIM)


def attend_frame(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, filled: int
) -> Tensor:
    """See talker.kernels.frame.attend_frame; rows of a cache are contiguous."""
    rows, new, heads, dim = q.shape
    kv_heads = k.shape[2]
    if v.stride(3) != 1 or v.stride(2) != dim:
        v = v.contiguous()
    out = q.new_empty(q.shape, dtype=v.dtype)
    attend_frames[(rows, kv_heads)](
        *(q.contiguous(), k.contiguous(), v, keys, values, out),
        *(filled, v.stride(0), v.stride(1), keys.stride(0), dim**-0.5),
        NEW=new,
        KV_HEADS=kv_heads,
        GROUP=heads // kv_heads,
        DIM=dim,
        DIM_BLOCK=triton.next_power_of_2(dim),
        POSITIONS=triton.next_power_of_2(keys.shape[1]),
    )
    return out
