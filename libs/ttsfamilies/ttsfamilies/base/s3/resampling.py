"""Recordings at another rate, as torchaudio's `Resample` does it by default. No torch."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ttscommon.sound.recordings import Floats

_ROLLOFF, _WIDTH = 0.99, 6
_PIECE: Final = 8192


def windowed_sinc(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] float32 at another rate, begun samples included: a sinc under a squared cosine."""
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
