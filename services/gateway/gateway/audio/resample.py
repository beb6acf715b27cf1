"""From a model's sample rate to the one a client asked for, chunk by chunk."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import soxr

Pcm = npt.NDArray[np.int16]

_EMPTY: Pcm = np.zeros(0, np.int16)


class StreamResampler(Protocol):
    """Turns [samples] int16 at one rate into another; holds back what its filter still needs."""

    def feed(self, pcm: Pcm) -> Pcm: ...

    def flush(self) -> Pcm: ...


class Unchanged:
    """The client takes the model's own rate."""

    def feed(self, pcm: Pcm) -> Pcm:
        return pcm

    def flush(self) -> Pcm:
        return _EMPTY


class Soxr:
    """libsoxr, high quality, streaming, in floats: its int16 output is dithered at random."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def feed(self, pcm: Pcm) -> Pcm:
        return _rounded(self._stream.resample_chunk(pcm.astype(np.float32)))

    def flush(self) -> Pcm:
        return _rounded(self._stream.resample_chunk(_EMPTY.astype(np.float32), last=True))


def _rounded(samples: npt.NDArray[np.float32]) -> Pcm:
    return np.clip(np.rint(samples), -32768, 32767).astype(np.int16)


def resampler(source_hz: int, target_hz: int) -> StreamResampler:
    """From one rate to another, both in Hz."""
    if source_hz == target_hz:
        return Unchanged()
    return Soxr(soxr.ResampleStream(source_hz, target_hz, 1, dtype="float32", quality="HQ"))
