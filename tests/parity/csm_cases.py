"""What the reference is asked of synthetic CSM checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import TEXT, drawn_codes, pcm

SEED: Final = 3
CODEBOOKS: Final = 32
# By folder: seed; whether it has the published head counts; how loudly it asks for the end.
CHECKPOINTS: Final = {
    "csm": (SEED, False, 0.0),
    "csm-heads": (SEED, True, 0.0),
    "csm-ending": (8, False, 2.4),
}
FRAMES: Final = 25
SPEED_FRAMES: Final = 20


@dataclass(frozen=True)
class Said:
    """A turn; of words alone where it takes no time."""

    speaker: int
    text: str
    seconds: float = 0.0

    def sound(self) -> npt.NDArray[np.int16] | None:
        """[samples] at 24 kHz."""
        return pcm(self.seconds, self.speaker + len(self.text)) if self.seconds else None


@dataclass(frozen=True)
class Case:
    """temperature, top_k, top_p: of codebook 0 and of the others. speaker: of the text."""

    name: str
    checkpoint: str = "csm"
    text: str = TEXT
    speaker: int = 0
    turns: tuple[Said, ...] = ()
    seed: int = 16
    temperature: tuple[float, float] = (0.0, 0.0)
    top_k: tuple[int, int] = (50, 50)
    top_p: tuple[float, float] = (1.0, 1.0)
    frames: int = 9


TURNS: Final = (
    Said(1, "Who sings there?", 1.31),
    Said(0, "Nobody, it says here."),
    Said(0, "Odd.", 1.04),
)
CASES: Final = (
    Case("greedy"),
    Case("greedy after turns", turns=TURNS, speaker=1),
    Case("the usual settings", temperature=(0.9, 0.9), turns=TURNS[:1]),
    Case(
        "settings of each part",
        text="Odd.",
        seed=5,
        temperature=(1.2, 0.7),
        top_k=(0, 20),
        top_p=(0.9, 0.8),
    ),
    Case("greedy at published head counts", checkpoint="csm-heads", turns=TURNS),
    Case("drawn at published head counts", checkpoint="csm-heads", temperature=(0.9, 0.9), seed=8),
    Case("ended by the model", "csm-ending", seed=7, temperature=(0.9, 0.6), frames=40),
)


def codes() -> npt.NDArray[np.int16]:
    """What the codec is given, [FRAMES, CODEBOOKS]."""
    return drawn_codes(SEED, 2048, FRAMES, CODEBOOKS)
