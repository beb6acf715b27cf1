"""What the published SNAC is given: codes and noise. No torch."""

from typing import Final

import numpy as np
import numpy.typing as npt

SEED: Final = 2
FRAMES: Final = 10


def codes() -> npt.NDArray[np.int16]:
    """[FRAMES, 7]."""
    return np.random.Generator(np.random.PCG64(SEED)).integers(0, 4096, (FRAMES, 7)).astype("i2")


def noise(seed: int, block: int, steps: int) -> npt.NDArray[np.float32]:
    """Of a block's first `steps` steps."""
    random = np.random.Generator(np.random.PCG64([seed, block]))
    return random.standard_normal(steps, np.float32)
