"""The input of a causal convolution in one kernel: sums, biases, Snake, and the tail in front.

A convolution's bias and a residual are added where the next convolution's input is made, so that a
sum is read and written once. A stream's tail is read from its state and replaced there; the program
of a channel's first steps does so, after it has read the old one.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from vocoder.codecs.kernels.rows import StateRows, UnsettledSum

_STEPS: Final = 1024
_NUMBERS: Final = 1024
_LEAST: Final = 16


@triton.jit
def _squared_sine(x):
    """sin^2(x) by a series of sin over half a period; the library's own keeps a table a thread."""
    periods = tl.floor(x * 0.3183098861837907 + 0.5)
    x = x - periods * 3.140625
    x = x - periods * 9.67502593994140625e-4
    x = x - periods * 1.509957990978376432e-7
    square = x * x
    sine = 1.6059043836821613e-10 * square - 2.505210838544172e-8
    sine = sine * square + 2.755731922398589e-6
    sine = sine * square - 1.984126984126984e-4
    sine = sine * square + 8.333333333333333e-3
    sine = sine * square - 1.6666666666666666e-1
    sine = x + x * square * sine
    return sine * sine


@triton.jit
def _fed(
    x,
    added,
    bias,
    alpha,
    inverse,
    inside,
    HAS_ADDED: tl.constexpr,
    HAS_SNAKE: tl.constexpr,
):
    """The sum of what lies at x and added and the bias, and what the convolution is fed of it."""
    summed = tl.load(x, mask=inside, other=0.0) + bias
    if HAS_ADDED:
        summed += tl.load(added, mask=inside, other=0.0)
    found = summed
    if HAS_SNAKE:
        found = summed + _squared_sine(summed * alpha) * inverse
    return summed, found


@triton.jit
def _of_channels(numbers, channel, real, HAS: tl.constexpr):
    """A number a channel, [channels, 1]; 0 for what there is none of."""
    found = tl.zeros((channel.shape[0],), tl.float32)
    if HAS:
        found = tl.load(numbers + channel, mask=real, other=0.0)
    return found[:, None]


@triton.jit
def put_behind_tails(
    x,
    bias,
    added,
    added_bias,
    alpha,
    inverse,
    summed_out,
    out,
    tails,
    slots,
    fresh,
    lengths,
    channels,
    steps,
    rate,
    x_row,
    x_channel,
    added_row,
    added_channel,
    TAIL: tl.constexpr,
    TAIL_BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
    STEPS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_ADDED: tl.constexpr,
    HAS_SNAKE: tl.constexpr,
    HAS_SUM: tl.constexpr,
):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(2)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    real = channel < channels
    offset = _of_channels(bias, channel, real, HAS_BIAS)
    offset += _of_channels(added_bias, channel, real, HAS_ADDED)
    period = _of_channels(alpha, channel, real, HAS_SNAKE)
    factor = _of_channels(inverse, channel, real, HAS_SNAKE)
    here = x + row * x_row + channel[:, None] * x_channel
    more = added + row * added_row + channel[:, None] * added_channel
    line = row * channels + channel[:, None]
    at = (block * STEPS + tl.arange(0, STEPS))[None, :]
    inside = (at < steps) & real[:, None]
    summed, found = _fed(here + at, more + at, offset, period, factor, inside, HAS_ADDED, HAS_SNAKE)
    there = out + line * (TAIL + steps)
    tl.store(there + TAIL + at, found, mask=inside)
    if HAS_SUM:
        tl.store(summed_out + line * steps + at, summed, mask=inside)
    if TAIL > 0:  # noqa: SIM102 - known when the kernel is compiled
        if block == 0:
            before = tl.arange(0, TAIL_BLOCK)[None, :]
            mine = tails + (tl.load(slots + row) * channels + channel[:, None]) * TAIL
            place = (before < TAIL) & real[:, None]
            known = place & (tl.load(fresh + row) == 0)
            tl.store(there + before, tl.load(mine + before, mask=known, other=0.0), mask=place)
            kept = tl.load(lengths + row) * rate + before
            old = tl.load(mine + kept, mask=known & (kept < TAIL), other=0.0)
            last = kept - TAIL
            _, new = _fed(
                here + last, more + last, offset, period, factor, place & (last >= 0), HAS_ADDED,
                HAS_SNAKE,
            )  # fmt: skip
            tl.debug_barrier()  # all threads have read what is written now
            tl.store(mine + before, tl.where(last < 0, old, new), mask=place)


def put_behind(
    sum_: UnsettledSum,
    tails: Tensor | None,
    rows: StateRows,
    rate: int,
    snake: tuple[Tensor, Tensor] | None = None,
    *,
    keep: bool = False,
) -> tuple[Tensor, Tensor]:
    """A convolution's input [rows, channels, tail + steps], and the sum if it is to be kept.

    tails: [states + 1, channels, tail], moved on in place; None for no tail. rate: steps a frame.
    snake: alpha and 1 / beta [channels] each, of x + sin^2(alpha x) / beta. The second is of any
    content without `keep`.
    """
    x = sum_.x
    batch, channels, steps = x.shape
    tail = 0 if tails is None else tails.shape[2]
    out = x.new_empty(batch, channels, tail + steps)
    summed = x.new_empty(batch, channels, steps) if keep else out
    added = x if sum_.added is None else sum_.added
    assert steps == 1 or x.stride(2) == added.stride(2) == 1
    block = min(_STEPS, triton.next_power_of_2(steps))
    tail_block = max(_LEAST, triton.next_power_of_2(tail))
    tall = max(1, _NUMBERS // max(block, tail_block))
    put_behind_tails[(batch, triton.cdiv(channels, tall), triton.cdiv(steps, block))](
        *(x, x if sum_.bias is None else sum_.bias, added),
        x if sum_.added_bias is None else sum_.added_bias,
        *((x, x) if snake is None else snake),
        *(summed, out, x if tails is None else tails, rows.slots, rows.fresh, rows.lengths),
        *(channels, steps, rate, *x.stride()[:2], *added.stride()[:2]),
        TAIL=tail,
        TAIL_BLOCK=tail_block,
        CHANNELS=tall,
        STEPS=block,
        HAS_BIAS=sum_.bias is not None,
        HAS_ADDED=sum_.added is not None,
        HAS_SNAKE=snake is not None,
        HAS_SUM=keep,
    )
    return out, summed
