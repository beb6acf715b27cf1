"""Rows of a cache, written; one program a token."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation


@triton.jit
def rotate_store_heads(
    product,
    q_weight,
    k_weight,
    cosines,
    sines,
    places,
    q_out,
    keys,
    values,
    row_stride,
    angle_rows,
    angle_stride,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    DIM: tl.constexpr = 2 * HALF
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    query, value = head < HEADS, head >= HEADS + KV_HEADS
    here = product + token * row_stride + head * DIM + at
    low = tl.load(here, mask=inside, other=0.0)
    high = tl.load(here + HALF, mask=inside, other=0.0)
    place = (tl.load(places + token).to(tl.int64) * KV_HEADS) * DIM + at
    theirs = values + place + (head - HEADS - KV_HEADS) * DIM
    tl.store(theirs, low, mask=inside & value)
    tl.store(theirs + HALF, high, mask=inside & value)
    low, high = low.to(tl.float32), high.to(tl.float32)
    if HAS_NORM:
        squares = tl.sum(low * low, 0) + tl.sum(high * high, 0)
        scale = tl.rsqrt(squares / DIM + eps)
        asks, known = inside & query, inside & (head >= HEADS)
        weight = tl.load(q_weight + at, mask=asks, other=0.0).to(tl.float32)
        weight += tl.load(k_weight + at, mask=known, other=0.0).to(tl.float32)
        low *= scale * weight
        weight = tl.load(q_weight + HALF + at, mask=asks, other=0.0).to(tl.float32)
        weight += tl.load(k_weight + HALF + at, mask=known, other=0.0).to(tl.float32)
        high *= scale * weight
    angle = token % angle_rows * angle_stride + at
    cosine = tl.load(cosines + angle, mask=inside, other=0.0)
    sine = tl.load(sines + angle, mask=inside, other=0.0)
    # Rounded once to the product's type, as a rotation by itself does.
    first = (low * cosine - high * sine).to(product.dtype.element_ty)
    second = (low * sine + high * cosine).to(product.dtype.element_ty)
    mine = q_out + (token * HEADS + head) * DIM + at
    tl.store(mine, first, mask=inside & query)
    tl.store(mine + HALF, second, mask=inside & query)
    cached = keys + place + (head - HEADS) * DIM
    key = inside & (head >= HEADS) & (head < HEADS + KV_HEADS)
    tl.store(cached, first, mask=key)
    tl.store(cached + HALF, second, mask=key)


def rotate_store(
    heads: Tensor, rotation: HeadRotation, keys: Tensor, values: Tensor, places: Tensor
) -> Tensor:
    """See ttsfamilies.base.kernels.attention.rotate_store."""
    tokens, _, dim = heads.shape
    query_heads, kv_heads, _ = rotation.shares
    heads = heads if heads.stride()[1:] == (dim, 1) else heads.contiguous()
    q = heads.new_empty(tokens, query_heads, dim)
    cosines, q_weight, k_weight = rotation.cosines, rotation.q_weight, rotation.k_weight
    rotate_store_heads[(tokens, query_heads + 2 * kv_heads)](
        heads,
        cosines if q_weight is None else q_weight,
        cosines if k_weight is None else k_weight,
        *(cosines, rotation.sines, places, q, keys, values, heads.stride(0)),
        *(len(cosines), cosines.stride(0), rotation.eps),
        HEADS=query_heads,
        KV_HEADS=kv_heads,
        HALF=dim // 2,
        BLOCK=triton.next_power_of_2(dim // 2),
        HAS_NORM=q_weight is not None,
        num_warps=1,
    )
    return q
