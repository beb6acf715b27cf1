"""Products of few rows; a program reads its outputs' weights once, for all of up to 64 rows.

A norm divides each row by one number, so it is multiplied in behind the sums: the rows are read
once. What is multiplied is in the weights' type either way.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_LEAST: Final = 16  # rows and columns of a product on tensor cores
_MOST: Final = 64
# Outputs of a program: fewer where there would be fewer programs than processors.
_WIDE: Final = 32
_PROGRAMS: Final = 128
_INPUTS: Final = 128


@triton.jit
def multiply_rows(
    x,
    weight,
    bias,
    norm,
    added,
    factors,
    ids,
    scales,
    out,
    rows,
    eps,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ADDED: tl.constexpr,
    HAS_FACTORS: tl.constexpr,
    HAS_IDS: tl.constexpr,
    HAS_SCALES: tl.constexpr,
    GATED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    kind = x.dtype.element_ty if HAS_SCALES else weight.dtype.element_ty
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    here, real = (row < rows)[:, None], column < OUTPUTS
    line, place = row.to(tl.int64)[:, None], column.to(tl.int64)[:, None]
    source = line
    if HAS_IDS:
        source = tl.load(ids + row, mask=row < rows, other=0)[:, None]
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    others = tl.zeros([ROWS, COLUMNS], tl.float32)
    squares = tl.zeros([ROWS, BLOCK], tl.float32)
    for begin in range(0, INPUTS, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        inside = (at < INPUTS)[None, :]
        told = tl.load(x + source * INPUTS + at[None, :], mask=here & inside, other=0.0)
        if HAS_NORM:
            value = told.to(tl.float32)
            squares += value * value
            value *= tl.load(norm + at, mask=at < INPUTS, other=0.0).to(tl.float32)[None, :]
            told = value.to(kind)
        mask = real[:, None] & inside
        mine = weight + place * INPUTS + at[None, :]
        told = told.to(kind)
        numbers = tl.load(mine, mask=mask, other=0.0).to(kind)
        sums = tl.dot(told, tl.trans(numbers), sums, input_precision=PRECISION)
        if GATED:
            numbers = tl.load(mine + OUTPUTS * INPUTS, mask=mask, other=0.0).to(kind)
            others = tl.dot(told, tl.trans(numbers), others, input_precision=PRECISION)
    if HAS_NORM:
        scale = tl.rsqrt(tl.sum(squares, 1) / INPUTS + eps)[:, None]
        sums *= scale
        others *= scale
    if HAS_SCALES:
        sums *= tl.load(scales + column, mask=real, other=0.0)[None, :]
        if GATED:
            others *= tl.load(scales + OUTPUTS + column, mask=real, other=0.0)[None, :]
    if HAS_BIAS:
        sums += tl.load(bias + column, mask=real, other=0.0).to(tl.float32)[None, :]
        if GATED:
            others += tl.load(bias + OUTPUTS + column, mask=real, other=0.0).to(tl.float32)[None, :]
    if GATED:
        sums = sums * tl.sigmoid(sums) * others
    mask = here & real[None, :]
    there = line * OUTPUTS + column[None, :]
    if HAS_FACTORS:
        sums *= tl.load(factors + column, mask=real, other=0.0).to(tl.float32)[None, :]
    if HAS_ADDED:
        sums += tl.load(added + there, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + there, sums, mask=mask)


def multiply(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Tensor | None,
    eps: float,
    gated: bool,
    added: Tensor | None,
    factors: Tensor | None,
    ids: Tensor | None,
    scales: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """See ttscommon.engine.kernels.few_rows.multiply."""
    x = x.contiguous()
    rows, inputs = len(x if ids is None else ids), x.shape[1]
    outputs = len(weight) // 2 if gated else len(weight)
    out = x.new_empty(rows, outputs, dtype=dtype)
    tall = min(_MOST, max(_LEAST, triton.next_power_of_2(rows)))
    columns = _WIDE if outputs >= _WIDE * _PROGRAMS else _LEAST
    multiply_rows[(triton.cdiv(outputs, columns), triton.cdiv(rows, tall))](
        *(x, weight, x if bias is None else bias, x if norm is None else norm),
        *(x if added is None else added.contiguous(), x if factors is None else factors),
        *(x if ids is None else ids, x if scales is None else scales, out, rows, eps),
        INPUTS=inputs,
        OUTPUTS=outputs,
        ROWS=tall,
        COLUMNS=columns,
        BLOCK=min(_INPUTS, max(_LEAST, triton.next_power_of_2(inputs))),
        HAS_BIAS=bias is not None,
        HAS_NORM=norm is not None,
        HAS_ADDED=added is not None,
        HAS_FACTORS=factors is not None,
        HAS_IDS=ids is not None,
        HAS_SCALES=scales is not None,
        GATED=gated,
        PRECISION="ieee" if (weight if scales is None else x).dtype == torch.float32 else None,
        num_warps=8 if tall == _MOST else 4,  # fewer spill registers behind a gate
        num_stages=3,
    )
    return out
