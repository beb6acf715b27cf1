"""The voice encoder of Chatterbox: an LSTM (GE2E; Wan et al., 2018) over windows of a recording."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.sound.recordings import Floats
from ttsfamilies.base.lm.mel import mel_filters

RATE_HZ: Final = 16_000
_MELS, _HIDDEN, _LAYERS = 40, 256, 3
_FFT, _HOP = 400, 160
_WINDOW: Final = 160
# 1.3 windows a second.
_STEP: Final = 77
_LEAST_SHARE: Final = 0.8
_QUIET_DB: Final = 20.0
_TRIM_FRAME, _TRIM_HOP = 2048, 512


def trimmed(samples: Floats) -> Floats:
    """Without what is 20 dB below the loudest frame, at both ends; librosa's `effects.trim`."""
    half = _TRIM_FRAME // 2
    padded = np.pad(samples.astype(np.float64), half)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _TRIM_FRAME)[::_TRIM_HOP]
    power = np.square(frames).mean(1)
    loud = np.flatnonzero(power > power.max() * 10 ** (-_QUIET_DB / 10))
    if not len(loud):
        return samples
    return samples[loud[0] * _TRIM_HOP : (loud[-1] + 1) * _TRIM_HOP]


def windows(frames: int) -> int:
    """How many windows a recording of so many frames has; the last may reach beyond it."""
    count, rest = divmod(max(frames - _WINDOW + _STEP, 0), _STEP)
    return count + (not count or (rest + _WINDOW - _STEP) / _WINDOW >= _LEAST_SHARE)


class VoiceVector(nn.Module):
    """A recording at 16 kHz to what T3 knows of its voice."""

    filters: Tensor
    hann: Tensor

    def __init__(self) -> None:
        super().__init__()
        filters = mel_filters(_MELS, RATE_HZ, _FFT, RATE_HZ / 2)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("hann", torch.hann_window(_FFT), persistent=False)
        self.lstm = nn.LSTM(_MELS, _HIDDEN, _LAYERS, batch_first=True)
        self.proj = nn.Linear(_HIDDEN, _HIDDEN)

    def forward(self, samples: Tensor) -> Tensor:
        """[samples] float32, trimmed -> [256]."""
        spectrum = torch.stft(samples, _FFT, _HOP, window=self.hann, return_complex=True)
        mel = (self.filters @ spectrum.abs().square()).T
        count = windows(len(mel))
        end = _WINDOW + _STEP * (count - 1)
        mel = nn.functional.pad(mel, (0, 0, 0, max(0, end - len(mel))))[:end]
        partial = mel.unfold(0, _WINDOW, _STEP).mT
        _, (hidden, _) = self.lstm(partial)
        each = nn.functional.normalize(self.proj(hidden[-1]).relu(), dim=1)
        return nn.functional.normalize(each.mean(0), dim=0)
