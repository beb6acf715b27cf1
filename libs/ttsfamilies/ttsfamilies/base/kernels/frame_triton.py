"""Attention within a frame in one kernel, norm and rotation included; a program a row and KV head.

A frame has so few positions that all of them are held at once, and so few queries that products
are sums: the matrix units would want 16 rows. All arithmetic is float32. Heads are held as two
halves, which is how they are rotated.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation


@triton.jit
def _halves(here, at, mask, HALF: tl.constexpr):
    low = tl.load(here + at, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(here + HALF + at, mask=mask, other=0.0).to(tl.float32)
    return low, high


@triton.jit
def _turned(
    low,
    high,
    squares,
    weight,
    angle,
    cosines,
    sines,
    at,
    mask,
    eps,
    HALF: tl.constexpr,
    NORM: tl.constexpr,
):
    """Halves after the norm by `weight` and the rotation by the angles at `angle`."""
    if NORM:
        scale = tl.rsqrt(squares / (2 * HALF) + eps)
        low *= scale * tl.load(weight + at, mask=at < HALF, other=0.0).to(tl.float32)
        high *= scale * tl.load(weight + HALF + at, mask=at < HALF, other=0.0).to(tl.float32)
    cosine = tl.load(cosines + angle + at, mask=mask, other=0.0)
    sine = tl.load(sines + angle + at, mask=mask, other=0.0)
    return low * cosine - high * sine, low * sine + high * cosine


@triton.jit
def attend_frames(
    q,
    k,
    v,
    keys,
    values,
    out,
    q_weight,
    k_weight,
    cosines,
    sines,
    filled,
    q_row,
    q_new,
    k_row,
    k_new,
    v_row,
    v_new,
    cache_row,
    angle_row,
    scale,
    eps,
    NEW: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ROTATION: tl.constexpr,
):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    DIM: tl.constexpr = 2 * HALF
    one, position = tl.arange(0, BLOCK), tl.arange(0, POSITIONS)
    at, inside = one[None, :], (one < HALF)[None, :]
    new = (position - filled)[:, None]
    known = (position < filled)[:, None] & inside
    fresh = (new >= 0) & (new < NEW) & inside
    low, high = _halves(k + row * k_row + new * k_new + head * DIM, at, fresh, HALF)
    if HAS_ROTATION:
        squares = tl.sum(low * low + high * high, 1)[:, None]
        angle = new * angle_row
        low, high = _turned(
            low, high, squares, k_weight, angle, cosines, sines, at, fresh, eps, HALF, HAS_NORM
        )
    new_low, new_high = _halves(v + row * v_row + new * v_new + head * DIM, at, fresh, HALF)
    there = row * cache_row + (position[:, None] * KV_HEADS + head) * DIM
    known_low, known_high = _halves(keys + there, at, known, HALF)
    value_low, value_high = _halves(values + there, at, known, HALF)
    tl.store(keys + there + at, low, mask=fresh)
    tl.store(keys + there + HALF + at, high, mask=fresh)
    tl.store(values + there + at, new_low, mask=fresh)
    tl.store(values + there + HALF + at, new_high, mask=fresh)
    key_low, key_high = tl.where(fresh, low, known_low), tl.where(fresh, high, known_high)
    value_low = tl.where(fresh, new_low, value_low)
    value_high = tl.where(fresh, new_high, value_high)
    for query in tl.static_range(NEW * GROUP):
        of, line = query // GROUP, head * GROUP + query % GROUP
        low, high = _halves(q + row * q_row + of * q_new + line * DIM, one, one < HALF, HALF)
        if HAS_ROTATION:
            squares, angle = tl.sum(low * low + high * high, 0), of * angle_row
            real = one < HALF
            low, high = _turned(
                low, high, squares, q_weight, angle, cosines, sines, one, real, eps, HALF, HAS_NORM
            )
        score = tl.sum(key_low * low[None, :] + key_high * high[None, :], 1) * scale
        score = tl.where(position <= filled + of, score, float("-inf"))
        weight = tl.exp(score - tl.max(score, 0))
        weight = (weight / tl.sum(weight, 0))[:, None]
        here = out + ((row * NEW + of) * KV_HEADS * GROUP + line) * DIM + one
        tl.store(here, tl.sum(value_low * weight, 0), mask=one < HALF)
        tl.store(here + HALF, tl.sum(value_high * weight, 0), mask=one < HALF)


def attend_frame(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    filled: int,
    rotation: HeadRotation | None,
    dtype: torch.dtype,
) -> Tensor:
    """See ttsfamilies.base.kernels.attention.attend_frame; rows of a cache are contiguous."""
    rows, new, heads, dim = q.shape
    kv_heads = k.shape[2]
    q, k, v = (x if x.stride()[2:] == (dim, 1) else x.contiguous() for x in (q, k, v))
    out = q.new_empty(q.shape, dtype=dtype)
    q_weight, k_weight, cosines, sines, eps = arguments_of(rotation, unused=keys)
    attend_frames[(rows, kv_heads)](
        *(q, k, v, keys, values, out, q_weight, k_weight, cosines, sines, filled),
        *(stride for x in (q, k, v) for stride in x.stride()[:2]),
        *(keys.stride(0), cosines.stride(0), dim**-0.5, eps),
        NEW=new,
        KV_HEADS=kv_heads,
        GROUP=heads // kv_heads,
        HALF=dim // 2,
        BLOCK=triton.next_power_of_2(dim // 2),
        POSITIONS=triton.next_power_of_2(keys.shape[1]),
        HAS_NORM=rotation is not None and rotation.q_weight is not None,
        HAS_ROTATION=rotation is not None,
    )
    return out


def arguments_of(
    rotation: HeadRotation | None, unused: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Norms' weights, cosines, sines and eps; `unused` for what there is none of."""
    if rotation is None:
        return unused, unused, unused, unused, 0.0
    q, k = rotation.q_weight, rotation.k_weight
    weights = unused if q is None else q, unused if k is None else k
    return *weights, rotation.cosines, rotation.sines, rotation.eps
