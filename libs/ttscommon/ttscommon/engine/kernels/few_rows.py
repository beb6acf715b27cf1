"""Products of few rows: what stands before and behind one goes into its kernel.

A decode step multiplies so few rows that reading the weights takes all of a product's time, and a
norm, a gate or a residual beside it costs a launch and no work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.choice import use_triton

# Products of more are no longer bound by their weights, and libraries know better.
_MOST: Final = 128

_most = _MOST


def are_few(rows: int) -> bool:
    """Whether products of so many rows are for `multiply`."""
    return rows <= _most


@contextmanager
def none_are_few() -> Iterator[None]:
    """Products are a library's whatever their rows are, for comparisons."""
    global _most
    _most = 0
    try:
        yield
    finally:
        _most = _MOST


def multiply(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    norm: Tensor | None = None,
    eps: float = 0.0,
    gated: bool = False,
    added: Tensor | None = None,
    factors: Tensor | None = None,
    ids: Tensor | None = None,
    scales: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """[rows, inputs] by weights [outputs, inputs] -> [rows, outputs] in `dtype`, or x's.

    ids: [rows] int64, the rows of x that are meant; None for all, in their order. norm: [inputs],
    of a root mean square norm of the rows before. gated: the weights are a gate's
    and, below, those of what it lets through: silu(gate) * up, [rows, outputs / 2]. added, factors:
    [rows, outputs] and [outputs], of a residual behind: added + factors * product. scales:
    [outputs] float32, of float8 weights, which are multiplied in x's type. All sums are float32.
    """
    dtype = dtype or x.dtype
    if use_triton(x):
        from ttscommon.engine.kernels import few_rows_triton

        around = norm, eps, gated, added, factors
        return few_rows_triton.multiply(x, weight, bias, *around, ids, scales, dtype)
    exact = torch.promote_types(x.dtype, torch.float32)
    rows = (x if ids is None else x[ids]).to(exact)
    if norm is not None:
        rows = functional.rms_norm(rows, norm.shape, norm.to(exact), eps)
    wide = None if bias is None else bias.to(exact)
    if scales is None:
        out = functional.linear(rows, weight.to(exact), wide)
    else:
        out = functional.linear(rows, weight.to(exact)) * scales
        out = out if wide is None else out + wide
    if gated:
        gate, up = out.chunk(2, -1)
        out = functional.silu(gate) * up
    if factors is not None:
        out = out * factors
    return (out if added is None else added + out).to(dtype)
