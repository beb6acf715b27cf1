"""Spectra as Perth hears them, at any sample rate.

Its own are of 32 kHz, 64 ms long and 10 ms apart. Frames of these lengths have the same bins at
every rate, so that nothing is resampled.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gateway.audio.watermark.network import Floats

Spectra = npt.NDArray[np.complex64]

_WINDOW_S: Final = 0.064
_HOP_S: Final = 0.010
_SAMPLES: Final = 2048
_FLOOR: Final = 1e-9
_FLOOR_DB: Final = -180.0
_SPAN_DB: Final = 195.0


class SpectrumFrames:
    """Frames of `window` samples, `hop` apart, frame k in the middle of sample k * hop."""

    def __init__(self, sample_rate: int, bins: int) -> None:
        """bins: the lowest ones of each spectrum, which are all that is looked at."""
        self.window = 2 * round(sample_rate * _WINDOW_S / 2)
        self.hop = round(sample_rate * _HOP_S)
        self._bins = bins
        self._scale = np.float32(_SAMPLES / self.window)
        turns = 2 * np.pi * np.arange(self.window) / self.window
        self._shape: Floats = (0.5 - 0.5 * np.cos(turns)).astype(np.float32)
        self._overlap = self._overlapping()

    def spectra(self, samples: Floats) -> Spectra:
        """[samples] -> [frames, bins] of all whole frames, the first from the first sample on."""
        cut = np.lib.stride_tricks.sliding_window_view(samples, self.window)[:: self.hop]
        found = np.fft.rfft(cut * self._shape)[:, : self._bins]
        return (found * self._scale).astype(np.complex64)

    def sound(self, spectra: Spectra) -> Floats:
        """[frames, bins] -> [(frames - 1) * hop + window] samples, all frames added up."""
        whole = np.zeros((len(spectra), self.window // 2 + 1), np.complex64)
        whole[:, : self._bins] = spectra / self._scale
        frames = np.fft.irfft(whole, self.window).astype(np.float32) * self._shape
        made = np.zeros((len(spectra) - 1) * self.hop + self.window, np.float32)
        for number, frame in enumerate(frames):
            made[number * self.hop :][: self.window] += frame
        return made / self._overlap[np.arange(len(made)) % self.hop]

    def _overlapping(self) -> Floats:
        """[hop] the sum of all frames' squared shapes, for each place behind a frame's first."""
        turns = -(-self.window // self.hop)
        squares = np.zeros(turns * self.hop, np.float32)
        squares[: self.window] = self._shape**2
        summed: Floats = squares.reshape(turns, self.hop).sum(0)
        return summed


def levels(spectra: Spectra) -> Floats:
    """Logarithmic magnitudes: 0 is -180 dB, 1 is 15 dB."""
    decibels = 20 * np.log10(np.maximum(np.abs(spectra), _FLOOR))
    return ((decibels - _FLOOR_DB) / _SPAN_DB).astype(np.float32)


def raised(spectra: Spectra, by: Floats) -> Spectra:
    """What to add to spectra so that their levels are higher by so much."""
    gain = np.float32(10) ** (by * np.float32(_SPAN_DB / 20))
    return spectra * (gain - 1)
