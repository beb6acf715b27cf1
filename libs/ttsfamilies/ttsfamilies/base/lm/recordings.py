"""Recordings at the rate that an encoder wants. No torch."""

from __future__ import annotations

import math

import numpy as np

from ttscommon.sound.recordings import Floats


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
