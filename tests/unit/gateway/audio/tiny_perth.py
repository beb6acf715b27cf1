"""Perth with few channels and drawn weights, and sound to mark."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gateway.audio import Pcm
from gateway.audio.watermark import Perth

# Written by tests/evaluation/perth_golden.py.
GOLDEN: Final = Path(__file__).parent / "data/perth.npz"
RATE: Final = 32_000
SECONDS: Final = 2.0
COMPARED: Final = slice(20_000, 40_000, 7)
BINS: Final = 128
_HIDDEN: Final = 4
_TAPS: Final = (1, 7, 7, 7, 7, 7, 1)


def weights(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """By the names and in the shapes of the package's."""
    dice, found = np.random.default_rng(seed), dict[str, npt.NDArray[Any]]()
    for name, out in (
        ("encoder.layers", BINS),
        *((f"decoder.{kind}_layers", 2) for kind in ("slow", "normal", "fast")),
    ):
        sizes = [BINS, *[_HIDDEN] * (len(_TAPS) - 1), out]
        for number, (taps, size, made) in enumerate(zip(_TAPS, sizes, sizes[1:], strict=False)):
            drawn = dice.standard_normal((made, size, taps)) / np.sqrt(size * taps)
            found[f"{name}.{number}.conv.weight"] = drawn.astype(np.float32)
            found[f"{name}.{number}.conv.bias"] = dice.normal(0, 0.1, made).astype(np.float32)
    for kind in ("weight", "bias"):  # a few decibels
        found[f"encoder.layers.{len(_TAPS) - 1}.conv.{kind}"] *= np.float32(0.03)
    return found


def tiny(seed: int = 0) -> Perth:
    return Perth.of(weights(seed))


def sound(seconds: float, rate: int, seed: int = 1) -> Pcm:
    """Noise that is louder where it is low, as speech is."""
    steps = np.random.default_rng(seed).standard_normal(round(seconds * rate))
    low = np.convolve(steps, np.hanning(9), "same")
    return np.rint(low / np.abs(low).max() * 20_000).astype(np.int16)
