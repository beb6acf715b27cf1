"""A convolution on tensor cores without their rounding: three products of TF32 parts make one.

Steps of all rows stand side by side in the columns of one product, so that short launches fill it.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor

_OUTPUTS: Final = 64
_STEPS: Final = 64
_INPUTS: Final = 32


@triton.jit
def convolve_steps(
    x,
    weight,
    out,
    columns,
    steps,
    length,
    dilation,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    TAPS: tl.constexpr,
    INPUTS_BLOCK: tl.constexpr,
    OUTPUTS_BLOCK: tl.constexpr,
    STEPS_BLOCK: tl.constexpr,
):
    column = tl.program_id(0) * STEPS_BLOCK + tl.arange(0, STEPS_BLOCK)
    output = tl.program_id(1) * OUTPUTS_BLOCK + tl.arange(0, OUTPUTS_BLOCK)
    inside, real = (column < columns)[None, :], (output < OUTPUTS)[:, None]
    row, step = (column // steps).to(tl.int64), column % steps
    sums = tl.zeros([OUTPUTS_BLOCK, STEPS_BLOCK], tl.float32)
    for tap in range(TAPS):
        here = x + row * INPUTS * length + step + tap * dilation
        mine = weight + (tap * OUTPUTS + output[:, None]).to(tl.int64) * INPUTS
        for begin in range(0, INPUTS, INPUTS_BLOCK):
            at = begin + tl.arange(0, INPUTS_BLOCK)
            known = at < INPUTS
            numbers = tl.load(mine + at[None, :], mask=real & known[None, :], other=0.0)
            told = tl.load(
                here[None, :] + at[:, None].to(tl.int64) * length,
                mask=inside & known[:, None],
                other=0.0,
            )
            sums = tl.dot(numbers, told, sums, input_precision="tf32x3")
    there = out + (row[None, :] * OUTPUTS + output[:, None]) * steps + step[None, :]
    tl.store(there, sums, mask=inside & real)


def convolve(x: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """[rows, inputs, length] by [taps, outputs, inputs] -> [rows, outputs, steps], stride 1.

    All float32 and contiguous; without a bias.
    """
    rows, inputs, length = x.shape
    taps, outputs, _ = weight.shape
    steps = length - (taps - 1) * dilation
    out = x.new_empty(rows, outputs, steps)
    grid = triton.cdiv(rows * steps, _STEPS), triton.cdiv(outputs, _OUTPUTS)
    convolve_steps[grid](
        *(x, weight, out, rows * steps, steps, length, dilation),
        INPUTS=inputs,
        OUTPUTS=outputs,
        TAPS=taps,
        INPUTS_BLOCK=_INPUTS,
        OUTPUTS_BLOCK=_OUTPUTS,
        STEPS_BLOCK=_STEPS,
        num_warps=4,
        num_stages=2,  # with more, registers are spilled on sm_80
    )
    return out
