"""What DAC is given: codes and a recording. Needs numpy alone."""

from typing import Final

import numpy as np
import numpy.typing as npt

SEED: Final = 2
FRAMES: Final = 26
CODEBOOKS, CODES = 9, 1024


def codes() -> npt.NDArray[np.int16]:
    """[FRAMES, CODEBOOKS]."""
    random = np.random.Generator(np.random.PCG64(SEED))
    return random.integers(0, CODES, (FRAMES, CODEBOOKS)).astype("i2")
