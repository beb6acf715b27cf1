"""The first audible sample: silence in front of the voice does not count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class AudibleDetector:
    """Finds the first sample louder than a threshold in a stream of int16 pieces."""

    def __init__(self, threshold_dbfs: float = -50.0) -> None:
        self._level = 32768.0 * 10.0 ** (threshold_dbfs / 20.0)
        self.found = False

    def feed(self, pcm: NDArray[np.int16]) -> int | None:
        """Returns the index in `pcm` [samples] of the first audible sample, once."""
        if self.found or pcm.size == 0:
            return None
        loud = np.abs(pcm.astype(np.int32)) > self._level
        index = int(loud.argmax())
        if not loud[index]:
            return None
        self.found = True
        return index
