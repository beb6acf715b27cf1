"""Mel spectra that encoders of recordings were trained with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

_QUIETEST = 1e-5
# Slaney's mel scale: linear up to 1 kHz, then 27 mel for each factor of 6.4.
_LINEAR_HZ, _KNEE_HZ = 200.0 / 3, 1000.0
_KNEE = _KNEE_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27


def _to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    curved = _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE))
    return np.where(mel < _KNEE, mel * _LINEAR_HZ, curved)


def mel_filters(mels: int, sample_rate: int, fft: int, highest_hz: float) -> Tensor:
    """Triangles of equal area on Slaney's mel scale, [mels, fft / 2 + 1] float32."""
    highest = _KNEE + np.log(highest_hz / _KNEE_HZ) / _LOG_STEP
    edges = _to_hz(np.linspace(0.0, highest, mels + 2))
    bins = np.fft.rfftfreq(fft, 1 / sample_rate)
    slopes = (bins[None] - edges[:, None]) / np.diff(edges, append=np.inf)[:, None]
    rise, fall = slopes[:-2], 1 - slopes[1:-1]
    triangles = np.maximum(0.0, np.minimum(rise, fall))
    return torch.from_numpy(triangles * (2 / (edges[2:] - edges[:-2]))[:, None]).float()


class LogMel(nn.Module):
    """Logarithm of magnitudes, a frame each `hop` samples (HiFi-GAN: Kong et al., 2020)."""

    filters: Tensor
    window: Tensor

    def __init__(self, mels: int, sample_rate: int, fft: int, hop: int, highest_hz: float) -> None:
        super().__init__()
        self.fft, self.hop = fft, hop
        filters = mel_filters(mels, sample_rate, fft, highest_hz)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("window", torch.hann_window(fft), persistent=False)

    def forward(self, wav: Tensor) -> Tensor:
        """[batch, samples] float32 -> [batch, mels, frames]."""
        margin = (self.fft - self.hop) // 2
        padded = nn.functional.pad(wav[:, None], (margin, margin), mode="reflect")[:, 0]
        spectrum = torch.stft(
            padded, self.fft, self.hop, window=self.window, center=False, return_complex=True
        )
        magnitude = (torch.view_as_real(spectrum).square().sum(-1) + 1e-9).sqrt()
        return (self.filters @ magnitude).clamp(min=_QUIETEST).log()
