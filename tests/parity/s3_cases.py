"""What the flow of S3 tokens and HiFT are given: tokens, a recording, and noise. No torch."""

from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import drawn_codes

Floats = npt.NDArray[np.float64]

NAME: Final = "s3_flow"
"""Of the goldens, and of the reference's environment."""
KINDS: Final = ("cosyvoice2", "cosyvoice3", "chatterbox", "chatterbox_turbo")
GRIDS: Final = (0, 25)
"""Tokens that see each other: all, or the streaming mask's."""
TOKENS: Final = 36
PROMPT: Final = 17
MELS: Final = 80
HARMONICS: Final = 9
SAMPLES: Final = 960 * TOKENS
STRIDE: Final = 7
MEL_STRIDE: Final = 3
_FRAMES: Final = 2 * (PROMPT + TOKENS)


def _random(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def tokens() -> npt.NDArray[np.int16]:
    """[TOKENS]."""
    return drawn_codes(1, 6561, TOKENS)


def recording() -> dict[str, npt.NDArray[np.generic]]:
    """A codec's conditions: see docs/decisions/streaming-flow.md."""
    random = _random(2)
    return {
        "token": random.integers(0, 6561, PROMPT).astype(np.int16),
        "mel": random.normal(-3.0, 1.0, (2 * PROMPT, MELS)).astype(np.float32),
        "speaker": random.normal(size=(1, 192)).astype(np.float32),
    }


def beginnings() -> Floats:
    """[MELS, frames]: what Chatterbox's flow begins with."""
    return _random(3).standard_normal((MELS, _FRAMES))


def source_noise() -> Floats:
    """[HARMONICS, SAMPLES], standard normal."""
    return _random(4).standard_normal((HARMONICS, SAMPLES))


def even_noise() -> Floats:
    """[HARMONICS, SAMPLES] between 0 and 1: CosyVoice 3's source."""
    return _random(6).random((HARMONICS, SAMPLES))


def phases() -> Floats:
    """[HARMONICS] between 0 and 1: what phases begin with, none for the first."""
    return _random(5).random(HARMONICS)
