"""Float samples to 16-bit ones, by the one rounding that all parts use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FULL_SCALE = 32768.0


def to_pcm(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """[samples] float32 in -1..1 -> int16: rounded half away from zero, clipped.

    Raises FloatingPointError for NaN or infinity: noise at full scale must not be played.
    """
    if not np.isfinite(samples).all():
        raise FloatingPointError("the codec gave samples that are no numbers")
    scaled = samples.astype(np.float64) * FULL_SCALE
    rounded = np.trunc(scaled + np.copysign(0.5, scaled))
    return np.clip(rounded, -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
