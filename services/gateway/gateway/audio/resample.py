"""Another sample rate, or another speed at the same pitch (WSOLA), chunk by chunk."""

from __future__ import annotations

from typing import Any, Final, Protocol

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


MIN_SPEED: Final = 0.25
MAX_SPEED: Final = 4.0

_HOP_S: Final = 0.015
_SEARCH_S: Final = 0.005
_SILENT: Final = 1e-3

Floats = npt.NDArray[Any]


class TimeStretch:
    """Plays `speed` times as fast. Holds back about 40 ms of input.

    Windows of two hops overlap by one. Each is taken where it continues the one before best,
    within `_SEARCH_S` of where the speed wants it.
    """

    def __init__(self, sample_rate: int, speed: float) -> None:
        """`speed` in [MIN_SPEED, MAX_SPEED]."""
        assert MIN_SPEED <= speed <= MAX_SPEED
        self._speed = speed
        self._hop = round(sample_rate * _HOP_S)
        self._reach = round(sample_rate * _SEARCH_S)
        self._rise = np.sin(np.linspace(0, np.pi / 2, self._hop, endpoint=False)) ** 2
        self._input: Floats = np.zeros(0)
        self._origin = 0  # of self._input in the whole
        self._fed = 0
        self._made = 0
        self._window = 0
        self._tail: Floats = np.zeros(0)  # the second half of the last window

    def feed(self, pcm: Pcm) -> Pcm:
        """What can be made now."""
        self._fed += len(pcm)
        self._input = np.concatenate([self._input, pcm])
        made = []
        while self._needed() <= self._fed:
            made.append(self._next())
        return _samples(made)

    def flush(self) -> Pcm:
        """The rest, so that the whole is as long as the input divided by the speed."""
        missing = round(self._fed / self._speed) - self._made
        # Silence stands for what follows the end, and lets the last windows be made.
        silence = np.zeros(self._needed_span())
        made: list[Floats] = []
        while missing > 0:
            self._input = np.concatenate([self._input, silence])
            part = self._next()[:missing]
            missing -= len(part)
            made.append(part)
        return _samples(made)

    def _needed(self) -> int:
        """Input that the next window needs, and that the speed allows it to begin with."""
        due = round((self._window + 1) * self._hop * self._speed)
        return max(due, self._target() + self._needed_span())

    def _needed_span(self) -> int:
        return self._reach + 2 * self._hop

    def _target(self) -> int:
        """Where in the input the next window would begin if only the speed decided."""
        return round(self._window * self._hop * self._speed)

    def _next(self) -> Floats:
        """The next hop of output."""
        start = self._target() if self._window == 0 else self._best(self._target())
        first, second = self._cut(start, self._hop), self._cut(start + self._hop, self._hop)
        made = first if self._window == 0 else self._tail * (1 - self._rise) + first * self._rise
        self._tail = second
        self._window += 1
        self._made += len(made)
        self._forget(self._target() - self._reach)
        return made

    def _best(self, target: int) -> int:
        """The position near `target` whose sound is most like the tail it is blended with."""
        low = max(self._origin, target - self._reach)
        region = self._cut(low, target + self._reach + self._hop - low)
        likeness = np.correlate(region, self._tail, "valid")
        energy = np.convolve(region * region, np.ones(self._hop), "valid")
        if energy.max() < _SILENT:
            return target
        return low + int(np.argmax(likeness / np.sqrt(np.maximum(energy, _SILENT))))

    def _cut(self, start: int, length: int) -> Floats:
        offset = start - self._origin
        return self._input[offset : offset + length]

    def _forget(self, before: int) -> None:
        old = before - self._origin
        if old > 0:
            self._input = self._input[old:]
            self._origin = before


def _samples(made: list[Floats]) -> Pcm:
    if not made:
        return np.zeros(0, np.int16)
    return np.asarray(np.clip(np.rint(np.concatenate(made)), -32768, 32767), np.int16)
