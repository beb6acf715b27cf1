"""Recordings as encoders read them: at the rate that they want, and as mel spectra."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import Floats
from ttscommon.wire.fields import Arrays

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


# Of a resampling as torchaudio has it.
_ROLLOFF, _WIDTH = 0.99, 6
_PIECE: Final = 8192


class NetworkRecordings:
    """Recordings that one network reads; see Recordings. derive: with it."""

    def __init__(self, net: nn.Module, derive: Callable[[bytes], Arrays]) -> None:
        self._net, self._derive = net, derive

    @cached_property
    def revision(self) -> str:
        return digest((self._net,))[:32]

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        return self._derive(recording)


def resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] float32 at another rate, as the official package does it: soxr, high quality.

    As many samples as the recording's length fills, begun ones included.
    """
    if rate == wanted:
        return samples
    import soxr

    count = math.ceil(len(samples) * (wanted / rate))
    found = np.zeros(count, np.float32)
    made = soxr.resample(samples, rate, wanted, quality="HQ")[:count]
    found[: len(made)] = made
    return found


def windowed_sinc(samples: Floats, rate: int, wanted: int) -> Floats:
    """The same as torchaudio's `Resample` does it by default: a sinc under a squared cosine."""
    shared = math.gcd(rate, wanted)
    old, new = rate // shared, wanted // shared
    if old == new:
        return samples
    base = _ROLLOFF * min(old, new)
    reach = math.ceil(_WIDTH * old / base)
    at = np.arange(-reach, reach + old) / old - np.arange(new)[:, None] / new
    t = np.clip(at * base, -_WIDTH, _WIDTH)
    kernels = (np.sinc(t) * np.cos(t * np.pi / _WIDTH / 2) ** 2 * base / old).T
    padded = np.pad(samples, (reach, reach + old)).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(kernels))[::old]
    # A product of all windows at once would copy each sample as often as it is heard.
    pieces = range(0, len(windows), _PIECE)
    made = [(windows[i : i + _PIECE] @ kernels).reshape(-1) for i in pieces]
    return np.concatenate(made)[: math.ceil(new * len(samples) / old)].astype(np.float32)
