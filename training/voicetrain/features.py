"""Log mel spectra: what the tokenizer reads and the losses compare."""

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

SAMPLE_RATE = 16_000
HOP = 160
FFT = 512
MELS = 80
HOPS_PER_FRAME = 4
FRAME_SAMPLES = HOP * HOPS_PER_FRAME
MEL_MEAN, MEL_SCALE = -4.0, 3.0
_LOWEST_HZ = 40.0
_BEFORE = (FFT - HOP) // 2


@cache
def mel_matrix() -> Tensor:
    """[mels, bins] float32, triangles on the HTK mel scale, rows summing to one."""

    def mel(hz: float) -> float:
        return 2595 * float(np.log10(1 + hz / 700))

    edges = 700 * (10 ** (np.linspace(mel(_LOWEST_HZ), mel(SAMPLE_RATE / 2), MELS + 2) / 2595) - 1)
    bins = np.linspace(0, SAMPLE_RATE / 2, FFT // 2 + 1)[None]
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rising, falling)) + 1e-9
    return torch.tensor(weights / weights.sum(1, keepdims=True), dtype=torch.float32)


@cache
def hann(size: int) -> Tensor:
    """[size] float32 periodic Hann window."""
    return torch.hann_window(size)


def log_mel(audio: Tensor) -> Tensor:
    """[batch, samples] in [-1, 1], samples a multiple of HOP -> [batch, hops, mels]."""
    padded = nn.functional.pad(audio, (_BEFORE, FFT - HOP - _BEFORE))
    window = hann(FFT).to(audio.device)
    spectrum = torch.stft(padded, FFT, HOP, window=window, center=False, return_complex=True)
    mel = mel_matrix().to(audio.device) @ spectrum.abs()
    return torch.log(mel.clamp_min(1e-4)).transpose(1, 2)


def normalised(mel: Tensor) -> Tensor:
    """A log mel spectrum brought near zero mean and unit variance."""
    return (mel - MEL_MEAN) / MEL_SCALE
