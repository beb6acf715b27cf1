"""Recordings as encoders read them, at the rate that they want."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import nn

from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import Floats
from ttscommon.wire.fields import Arrays

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
