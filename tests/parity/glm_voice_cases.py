"""What the references are asked of synthetic GLM-4-Voice checkpoints. No torch."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import Floats, audio, drawn_codes

SEED: Final = 3
CODEC_SEED: Final = 2
RATE: Final = 16_000
TEXT: Final = (
    "It's 1234 o'clock, and the world is singing: how odd! \u4f60\u597d\uff0c\u4e16\u754c\u3002"
)
# Ids whose blocks are one of 25, one of 50, and an end.
CODES: Final = 90
STRIDE: Final = 16


@dataclass(frozen=True)
class Said:
    """A turn: of text, or of so many seconds of sound."""

    speaker: int
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Case:
    """ending: how loudly the checkpoint's ends speak."""

    name: str
    text: str = TEXT
    turns: tuple[Said, ...] = ()
    seed: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    tokens: int = 70
    ending: float = 1.0
    published_heads: bool = False

    @property
    def checkpoint(self) -> str:
        """Of its checkpoint."""
        return f"glm-{self.ending:g}{'-published-heads' * self.published_heads}"


CASES: Final = (
    Case("greedy"),
    Case("what was said", "", (Said(0, seconds=1.31),), temperature=0.2, top_p=0.8, top_k=50),
    Case(
        "a conversation, and words beside what was said",
        "Briefly!",
        (Said(0, "Who sings?"), Said(1, " It is odd."), Said(0, seconds=0.3)),
        temperature=0.9,
        top_p=0.9,
        top_k=0,
    ),
    Case("published head counts", temperature=0.8, top_k=20, published_heads=True),
    Case("ended by the model", "Odd?", seed=5, temperature=1.0, ending=14.0, tokens=400),
)
# Seconds of turns; the longest has two blocks of attention.
HEARD: Final = (0.15, 1.0, 5.3)


def spoken(seconds: float) -> Floats:
    """[samples] at RATE, as 16 bits hold them."""
    return np.round(audio(seconds, 11, RATE) * 32_768).astype(np.float32) / np.float32(32_768)


def codes() -> npt.NDArray[np.int16]:
    """[CODES] of one answer."""
    return drawn_codes(4, 256, CODES)
