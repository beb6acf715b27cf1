"""What the references are asked of synthetic checkpoints of Orpheus and SNAC. No torch."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import drawn_codes

SEED: Final = 3
CODEC_SEED: Final = 2
TEXT: Final = "It's the end of the world, and you're singing to the user: how odd! <laugh> Hello."


@dataclass(frozen=True)
class Case:
    """ending: how loudly the checkpoint's end of speech speaks."""

    name: str
    voice: str = "tara"
    text: str = TEXT
    seed: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    penalty: float = 1.0
    tokens: int = 84
    ending: float = 1.0
    published_heads: bool = False

    @property
    def checkpoint(self) -> str:
        """Of its checkpoint."""
        return f"orpheus-{self.ending:g}{'-published-heads' * self.published_heads}"


# The package's own settings.
SPEED: Final = Case("speed", temperature=0.6, top_p=0.8, penalty=1.3)
SPEED_TOKENS: Final = 20 * 7

CASES: Final = (
    Case("greedy"),
    Case("greedy with a penalty", voice="leo", penalty=1.3),
    Case("the package's settings", temperature=0.6, top_p=0.8, penalty=1.3),
    Case("published head counts", temperature=0.6, penalty=1.3, published_heads=True),
    Case("hot", voice="zoe", text="Odd.", seed=5, temperature=1.2, top_k=50, penalty=1.1),
    Case("ended by the model", seed=7, temperature=1.0, penalty=1.1, ending=12.0, tokens=1200),
)


def codes() -> npt.NDArray[np.int16]:
    """What the codec is given, [10, 7]."""
    return drawn_codes(CODEC_SEED, 4096, 10, 7)


def noise(block: int, steps: int) -> npt.NDArray[np.float32]:
    """Of the first `steps` steps of a block of the codec."""
    random = np.random.Generator(np.random.PCG64([CODEC_SEED, block]))
    return random.standard_normal(steps, np.float32)
