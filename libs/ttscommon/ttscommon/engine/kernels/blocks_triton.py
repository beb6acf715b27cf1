"""The small parts of a decoder block, each read and written once; one program a row."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor, empty_like


@triton.jit
def add_norm_rows(
    x,
    added,
    factors,
    weight,
    summed_out,
    normed_out,
    eps,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_ADDED: tl.constexpr,
    HAS_FACTORS: tl.constexpr,
):
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    here = tl.program_id(0).to(tl.int64) * SIZE + at
    value = tl.load(x + here, mask=inside, other=0.0).to(tl.float32)
    if HAS_ADDED:
        more = tl.load(added + here, mask=inside, other=0.0).to(tl.float32)
        if HAS_FACTORS:
            more *= tl.load(factors + at, mask=inside, other=0.0).to(tl.float32)
        value += more
        rounded = value.to(summed_out.dtype.element_ty)
        tl.store(summed_out + here, rounded, mask=inside)
        value = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / SIZE + eps)
    factor = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed_out + here, value * scale * factor, mask=inside)


@triton.jit
def swiglu_rows(gate_up, out, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    gate = tl.load(gate_up + row * 2 * SIZE + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * SIZE + SIZE + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * SIZE + at, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def rotate_heads(
    x,
    weight,
    cosines,
    sines,
    out,
    row_stride,
    angle_rows,
    angle_stride,
    eps,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    here = x + row * row_stride + head * 2 * HALF + at
    low = tl.load(here, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(here + HALF, mask=inside, other=0.0).to(tl.float32)
    if HAS_NORM:
        squares = tl.sum(low * low, 0) + tl.sum(high * high, 0)
        scale = tl.rsqrt(squares / (2 * HALF) + eps)
        low *= scale * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        high *= scale * tl.load(weight + HALF + at, mask=inside, other=0.0).to(tl.float32)
    angle = row % angle_rows * angle_stride + at
    cosine = tl.load(cosines + angle, mask=inside, other=0.0)
    sine = tl.load(sines + angle, mask=inside, other=0.0)
    there = out + (row * HEADS + head) * 2 * HALF + at
    tl.store(there, low * cosine - high * sine, mask=inside)
    tl.store(there + HALF, low * sine + high * cosine, mask=inside)


@triton.jit
def angle_rows(positions, frequencies, cosines, sines, HALF: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    position = tl.load(positions + row).to(tl.float32)
    angle = position * tl.load(frequencies + at, mask=inside, other=0.0)
    tl.store(cosines + row * HALF + at, tl.cos(angle), mask=inside)
    tl.store(sines + row * HALF + at, tl.sin(angle), mask=inside)


def angles(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """See ttscommon.engine.nn.rope.Rope.angles; [...] -> cosines and sines [..., pairs]."""
    half, positions = len(frequencies), positions.contiguous()
    cosines, sines = frequencies.new_empty(2, *positions.shape, half).unbind()
    angle_rows[(positions.numel(),)](
        *(positions, frequencies, cosines, sines),
        HALF=half,
        BLOCK=triton.next_power_of_2(half),
        num_warps=1,
    )
    return cosines, sines


def add_norm(
    x: Tensor, added: Tensor | None, weight: Tensor, eps: float, scale: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See ttscommon.engine.kernels.blocks.add_norm; contiguous rows."""
    size = x.shape[-1]
    summed = x if added is None else empty_like(x)
    normed = empty_like(x)
    add_norm_rows[(x.numel() // size,)](
        *(x, x if added is None else added, weight if scale is None else scale),
        *(weight, summed, normed, eps),
        SIZE=size,
        BLOCK=triton.next_power_of_2(size),
        HAS_ADDED=added is not None,
        HAS_FACTORS=scale is not None,
    )
    return summed, normed


def swiglu(gate_up: Tensor) -> Tensor:
    """See ttscommon.engine.kernels.blocks.swiglu; contiguous rows."""
    size = gate_up.shape[-1] // 2
    out = gate_up.new_empty(*gate_up.shape[:-1], size)
    block = min(1024, triton.next_power_of_2(size))
    swiglu_rows[(out.numel() // size, triton.cdiv(size, block))](
        gate_up, out, SIZE=size, BLOCK=block
    )
    return out


def rotate(x: Tensor, cosines: Tensor, sines: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """See ttscommon.engine.kernels.blocks.rotate; [rows, heads, head_dim], heads contiguous.

    cosines and sines are strided alike, numbers of a row contiguous.
    """
    rows, heads, dim = x.shape
    out = x.new_empty(x.shape)
    rotate_heads[(rows, heads)](
        *(x, cosines if weight is None else weight, cosines, sines, out, x.stride(0)),
        *(len(cosines), cosines.stride(0), eps),
        HEADS=heads,
        HALF=dim // 2,
        BLOCK=triton.next_power_of_2(dim // 2),
        HAS_NORM=weight is not None,
        num_warps=1,
    )
    return out
