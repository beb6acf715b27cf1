"""Loudness of a recording, ITU-R BS.1770-4 with the filters of pyloudnorm. No torch."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ttscommon.sound.recordings import Floats

# Of the head's high shelf and of the high pass: gain in dB, quality, frequency in Hz.
_SHELF: Final = 4.0, 2**-0.5, 1500.0
_PASS: Final = 0.0, 0.5, 38.0
_BLOCK_S, _OVERLAP = 0.4, 0.75
_OFFSET, _SILENT, _BELOW = -0.691, -70.0, -10.0


def levelled(samples: Floats, rate: int, target: float) -> Floats:
    """[samples] with a loudness of `target` LUFS; silence as it is."""
    gain = 10 ** ((target - loudness(samples, rate)) / 20)
    return (samples * gain).astype(np.float32) if np.isfinite(gain) else samples


def loudness(samples: Floats, rate: int) -> float:
    """LUFS of [samples], gated; -inf of silence."""
    heard = _weighted(samples, rate)
    length, step = _BLOCK_S * rate, _BLOCK_S * (1 - _OVERLAP) * rate
    count = round((len(heard) / rate - _BLOCK_S) / (_BLOCK_S * (1 - _OVERLAP))) + 1
    starts = [int(i * step) for i in range(max(0, count))]
    blocks = [heard[at : int(at + length)] for at in starts]
    power = np.array([np.square(block).sum() / length for block in blocks])
    with np.errstate(divide="ignore"):
        levels = _OFFSET + 10 * np.log10(power)
        loud = levels >= _SILENT
        if not loud.any():
            return -np.inf
        floor = _OFFSET + 10 * np.log10(power[loud].mean()) + _BELOW
        return float(_OFFSET + 10 * np.log10(power[loud & (levels > floor)].mean()))


def _weighted(samples: Floats, rate: int) -> npt.NDArray[np.float64]:
    """Both filters at once, by their response; what rings on dies within the second behind."""
    size = len(samples) + rate
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    response = np.ones_like(z)
    for b, a in (_shelf(*_SHELF, rate), _high_pass(*_PASS, rate)):
        response *= np.polyval(b[::-1], z) / np.polyval(a[::-1], z)
    filtered = np.fft.irfft(np.fft.rfft(samples, size) * response, size)
    return np.asarray(filtered[: len(samples)])


Polynomials = tuple[list[float], list[float]]


def _shelf(gain: float, quality: float, hz: float, rate: int) -> Polynomials:
    amplitude = 10 ** (gain / 40)
    cosine, alpha = _angle(quality, hz, rate)
    root = 2 * amplitude**0.5 * alpha
    up, down = amplitude + 1, amplitude - 1
    b = [up + down * cosine + root, -2 * (down + up * cosine), up + down * cosine - root]
    a = [up - down * cosine + root, 2 * (down - up * cosine), up - down * cosine - root]
    return [amplitude * value for value in b], a


def _high_pass(gain: float, quality: float, hz: float, rate: int) -> Polynomials:
    del gain
    cosine, alpha = _angle(quality, hz, rate)
    b = [(1 + cosine) / 2, -(1 + cosine), (1 + cosine) / 2]
    return b, [1 + alpha, -2 * cosine, 1 - alpha]


def _angle(quality: float, hz: float, rate: int) -> tuple[float, float]:
    turn = 2 * np.pi * hz / rate
    return float(np.cos(turn)), float(np.sin(turn) / (2 * quality))
