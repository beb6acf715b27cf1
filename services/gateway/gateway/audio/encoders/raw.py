"""Bare samples: 16-bit, float, and the two logarithmic laws of telephony."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gateway.audio.resample import Pcm

_MULAW_BIAS: Final = 33
_MULAW_CLIP: Final = 8158


class RawPcm:
    """Signed 16-bit little-endian samples."""

    def feed(self, pcm: Pcm) -> bytes:
        return pcm.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        return b""


class FloatPcm:
    """32-bit little-endian floats in [-1, 1)."""

    def feed(self, pcm: Pcm) -> bytes:
        return (pcm.astype("<f4") / np.float32(32768)).tobytes()

    def finish(self) -> bytes:
        return b""


class Companded:
    """One byte a sample by a table; ITU-T G.711."""

    def __init__(self, table: npt.NDArray[np.uint8]) -> None:
        self._table = table

    def feed(self, pcm: Pcm) -> bytes:
        return self._table[pcm.astype(np.int32) + 32768].tobytes()

    def finish(self) -> bytes:
        return b""


def _every_sample() -> npt.NDArray[Any]:
    return np.arange(-32768, 32768, dtype=np.int32)


def _segment(magnitude: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """floor(log2) of positive integers below 2^14."""
    return np.asarray(np.frexp(magnitude.astype(np.float64))[1] - 1)


def _mulaw() -> npt.NDArray[np.uint8]:
    """The code of each 16-bit sample: 14-bit magnitudes, biased, sign and bits inverted."""
    samples = _every_sample()
    negative = samples < 0
    magnitude = np.minimum(np.abs(samples) >> 2, _MULAW_CLIP) + _MULAW_BIAS
    segment = _segment(magnitude) - 5
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    return np.asarray(code ^ np.where(negative, 0x7F, 0xFF), np.uint8)


def _alaw() -> npt.NDArray[np.uint8]:
    """The code of each 16-bit sample: 13-bit magnitudes, even bits inverted."""
    samples = _every_sample() >> 3
    negative = samples < 0
    magnitude = np.where(negative, -samples - 1, samples)
    segment = np.maximum(_segment(np.maximum(magnitude, 1)) - 4, 0)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 0x0F)
    return np.asarray(code ^ np.where(negative, 0x55, 0xD5), np.uint8)


MULAW: Final = _mulaw()
ALAW: Final = _alaw()
