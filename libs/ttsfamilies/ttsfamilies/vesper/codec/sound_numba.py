"""`sound` for processors, around its Fourier transforms, in compiled loops."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ttscommon.engine.kernels.compiled import (
    compiled,
    exp,
    floats,
    part,
    part_as_written,
)
from ttscommon.engine.kernels.convnext_numba import Floats
from ttsfamilies.vesper.codec.layers import (
    BINS,
    CYCLE,
    HIGHEST_HARMONIC_HZ,
    HOPS_PER_S,
    LOUDEST,
    VOICED_HZ,
)

_ZERO: Final = np.float32(0.0)
_HALF: Final = np.float32(0.5)
_ONE: Final = np.float32(1.0)
_THREE_HALVES: Final = np.float32(1.5)
_TWO: Final = np.float32(2.0)
_PI: Final = np.float32(math.pi)
_VOICED: Final = np.float32(VOICED_HZ)
_HIGHEST: Final = np.float32(HIGHEST_HARMONIC_HZ)
_LOUDEST: Final = np.float32(LOUDEST)
_NEAR: Final = np.float32(1e-3)
_HOPS_PER_S: Final = float(HOPS_PER_S)
_CYCLES: Final = float(CYCLE)
_PHASE: Final = CYCLE - 1
_QUARTERS: Final = 2 / math.pi
_QUARTER: Final = math.pi / 2
_MANY: Final = 1e9
# Cephes' polynomials of sine and cosine up to a quarter of pi.
_S0: Final = np.float32(-1.9515295891e-4)
_S1: Final = np.float32(8.3321608736e-3)
_S2: Final = np.float32(-1.6666654611e-1)
_C0: Final = np.float32(2.443315711809948e-5)
_C1: Final = np.float32(-1.388731625493765e-3)
_C2: Final = np.float32(4.166664568298827e-2)


@part
def _sine_cosine(angle: np.float32) -> tuple[np.float32, np.float32]:
    """Within 2e-7, of angles up to 1e9."""
    wide = np.float64(angle)
    quarters = np.floor(wide * _QUARTERS + 0.5)
    rest = np.float32(wide - quarters * _QUARTER)
    known = quarters if np.abs(quarters) < _MANY else 0.0
    count = np.int32(known)
    z = rest * rest
    sine = ((_S0 * z + _S1) * z + _S2) * z * rest + rest
    cosine = ((_C0 * z + _C1) * z + _C2) * z * z - _HALF * z + _ONE
    odd = (count & np.int32(1)) != 0
    first, second = (cosine, sine) if odd else (sine, cosine)
    first = -first if (count & np.int32(2)) != 0 else first
    second = -second if ((count + np.int32(1)) & np.int32(2)) != 0 else second
    return first, second


@part_as_written
def _hz(before: np.float32, here: np.float32, after: np.float32, at: int, size: int) -> np.float32:
    """At sample `at` of a hop of `size`, between its neighbours."""
    place = (np.float32(at) + _HALF) / np.float32(size)
    left = before * (_HALF - place) + here * (_HALF + place)
    right = here * (_THREE_HALVES - place) + after * (place - _HALF)
    return left if place < _HALF else right


@part_as_written
def pulses_of(around: Floats, hops: int, phase: int, pulse: Floats) -> int:
    """The pulses of one stream's hops [hops * size], and the phase behind `hops` of them."""
    size = len(pulse) // (len(around) - 2)
    rate = _HOPS_PER_S * np.float64(size)
    hz, cycles = np.empty(size, np.float32), np.empty(size, np.float64)
    angles, orders = np.empty(size, np.float32), np.empty(size, np.float32)
    turned = phase & _PHASE
    after = turned
    for hop in range(len(around) - 2):
        before, here, behind = around[hop], around[hop + 1], around[hop + 2]
        for at in range(size):
            hz[at] = _hz(before, here, behind, at, size)
        for at in range(size):
            cycles[at] = np.float64(_VOICED if hz[at] < _VOICED else hz[at]) / rate
        total = 0.0
        for at in range(size):
            total += cycles[at]
            cycles[at] = total
        begin = np.float64(turned) / _CYCLES
        for at in range(size):
            place = begin + cycles[at]
            angles[at] = _PI * np.float32(place - np.rint(place))
            pitch = _VOICED if hz[at] < _VOICED else hz[at]
            orders[at] = _TWO * np.floor(_HIGHEST / pitch) + _ONE
        for at in range(size):
            sine, _ = _sine_cosine(orders[at] * angles[at])
            divisor, _ = _sine_cosine(angles[at])
            near = np.abs(divisor) < _NEAR
            ratio = orders[at] if near else sine / (_ONE if near else divisor)
            loud = _ONE if hz[at] > _VOICED else _ZERO
            pulse[hop * size + at] = (ratio - _ONE) / _TWO * loud
        steps = np.rint(total * _CYCLES)
        turned = (turned + np.int64(steps if steps == steps else 0.0)) & _PHASE  # type: ignore[assignment]
        if hop + 1 == hops:
            after = turned
    return after


@compiled(floats(2), floats(3), floats(3))
def filter_rows(parts: Floats, pulses: Floats, out: Floats) -> None:
    """`sound.filtered` of rows, whose parts may have more behind them."""
    filter_, noise = np.empty((2, BINS), np.float32), np.empty((2, BINS), np.float32)
    for row in range(len(parts)):
        for at in range(BINS):
            part_, turn = parts[row, at], parts[row, BINS + at]
            loud = exp(_LOUDEST if part_ > _LOUDEST else part_)
            sine, cosine = _sine_cosine(_PI * (_ONE - _TWO / (exp(_TWO * turn) + _ONE)))
            filter_[0, at] = loud * cosine
            filter_[1, at] = loud * sine
        for at in range(BINS):
            part_, phase = parts[row, 2 * BINS + at], parts[row, 3 * BINS + at]
            loud = exp(_LOUDEST if part_ > _LOUDEST else part_)
            sine, cosine = _sine_cosine(phase)
            noise[0, at] = loud * cosine
            noise[1, at] = loud * sine
        for at in range(BINS):
            real, imaginary = pulses[row, at, 0], pulses[row, at, 1]
            turned = real * filter_[0, at] - imaginary * filter_[1, at]
            out[row, at, 0] = turned + noise[0, at]
            turned = real * filter_[1, at] + imaginary * filter_[0, at]
            out[row, at, 1] = turned + noise[1, at]
