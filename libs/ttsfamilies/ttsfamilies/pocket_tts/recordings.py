"""A recording as the model was trained on voices: at its rate, and ending in a pause."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ttscommon.sound.recordings import Floats

_TAPS, _BETA = 10, 5.0
_FRAME_S, _FADE_S, _PAUSE_S = 0.02, 0.02, 0.08
_FLOOR_DB: Final = 35.0


def resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] at another rate, as scipy's resample_poly does it: the official package's way."""
    shared = math.gcd(rate, wanted)
    up, down = wanted // shared, rate // shared
    if up == down:
        return samples
    half = _TAPS * max(up, down)
    filter = _low_pass(half, max(up, down)) * up
    padded = np.pad(samples.astype(np.float64), (half // up + 1, half // up + down + 1))
    count = -(-len(samples) * up // down)
    found = np.empty(count)
    for phase in range(min(up, count)):
        centre = np.arange(phase, count, up) * down  # on the grid of rate * up
        first = -(-(centre[0] - half) // up)
        taps = filter[half + centre[0] - up * np.arange(first, (centre[0] + half) // up + 1)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps))
        starts = first + half // up + 1 + np.arange(len(centre)) * down
        found[phase::up] = windows[starts] @ taps
    return found.astype(np.float32)


def _low_pass(half: int, rate: int) -> np.ndarray:
    """A windowed sinc of 2 * half + 1 taps that passes 1 / rate, as scipy's firwin."""
    at = np.arange(-half, half + 1)
    found = np.sinc(at / rate) * np.kaiser(2 * half + 1, _BETA)
    return np.asarray(found / found.sum())


def ended_on_a_pause(samples: Floats, rate: int) -> Floats:
    """Silence at the end cut, the end of the rest faded out, and 80 ms of silence behind it.

    Otherwise a voice goes on with its recording's last word, or begins late.
    """
    frame = max(1, int(_FRAME_S * rate))
    count = len(samples) // frame
    if not count:
        return samples
    power = np.square(samples[: count * frame]).reshape(count, frame).mean(1)
    loudness = 20 * np.log10(np.sqrt(power) + 1e-12)
    end = (int(np.flatnonzero(loudness > loudness.max() - _FLOOR_DB)[-1]) + 1) * frame
    fade = min(int(_FADE_S * rate), end)
    kept = samples[:end].copy()
    kept[end - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return np.concatenate([kept, np.zeros(int(_PAUSE_S * rate), np.float32)])
