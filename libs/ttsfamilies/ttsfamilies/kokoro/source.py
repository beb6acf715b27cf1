"""The generator's source: harmonics of the pitch and noise, as a spectrum and back.

Parity is with the published package's torch path: a real STFT, whose phases are angles. A source
that differs by rounding has angles that differ by a whole turn, and then another sound: whatever
has to agree goes this one way.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

from ttsfamilies.kokoro.sizes import SAMPLE_RATE

HARMONICS: Final = 9
_LOUD: Final = 0.1
_CUT: Final = 1e-4
_VOICED_HZ: Final = 10.0
_VOICED_NOISE: Final = 0.003
_UNVOICED_NOISE: Final = _LOUD / 3


class Voicing(nn.Module):
    """Pitch to samples: nine harmonics where there is a voice, and noise."""

    def __init__(self, half_samples: int) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)
        self._half = half_samples

    def forward(self, pitch: Tensor, noise: Tensor) -> Tensor:
        """[halves of frames] in Hz, and [harmonics, samples] -> [samples].

        Phases are summed in float64, where they stay exact however long a segment is.
        """
        times = torch.arange(1, HARMONICS + 1, device=pitch.device, dtype=torch.float64)
        turns = (pitch.double() * times[:, None] / SAMPLE_RATE) % 1
        phase = turns.cumsum(1)[None] * self._half
        wide = nn.functional.interpolate(phase, scale_factor=self._half, mode="linear")[0]
        sines = torch.sin(2 * math.pi * (wide % 1)).to(pitch.dtype)
        voiced = (pitch > _VOICED_HZ).to(pitch.dtype).repeat_interleave(self._half)
        loud = voiced * _VOICED_NOISE + (1 - voiced) * _UNVOICED_NOISE
        waves = sines * _LOUD * voiced + loud * noise
        found: Tensor = torch.tanh(self.l_linear(waves.mT))
        return found[:, 0]


class Spectrum(nn.Module):
    """A short Fourier transform as magnitudes and angles, and its inverse."""

    def __init__(self, size: int, hop: int) -> None:
        super().__init__()
        self._size, self._hop = size, hop

    def _window(self, like: Tensor) -> Tensor:
        return torch.hann_window(self._size, dtype=like.dtype, device=like.device)

    def forward(self, samples: Tensor) -> Tensor:
        """[samples] -> [1, 2 * bins, samples / hop + 1]."""
        window = self._window(samples)
        found = torch.stft(samples, self._size, self._hop, window=window, return_complex=True)
        angle = found.angle()
        # The first and the last window mirror themselves: their bins are real, and on which side of
        # the cut a negative one lies is rounding.
        angle = torch.where(angle < _CUT - math.pi, angle + 2 * math.pi, angle)
        return torch.cat((found.abs(), angle))[None]

    def inverse(self, x: Tensor) -> Tensor:
        """[2 * bins, steps], log magnitudes and what sines are the phases -> [samples]."""
        magnitude, phase = x.chunk(2)
        found = torch.polar(magnitude.exp(), phase.sin())
        window = self._window(x)
        return torch.istft(found, self._size, self._hop, window=window)
