"""What the reference is asked of synthetic Higgs Audio checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import TEXT, drawn_codes

SEED: Final = 3
CODEBOOKS, IDS = 8, 1026
# By folder: seed; whether it has the published head counts; how loudly codebook 0 and the others
# ask for the end.
CHECKPOINTS: Final = {
    "higgs": (SEED, False, 0.0, 0.1),
    "higgs-heads": (SEED, True, 0.0, 0.1),
    "higgs-ending": (8, False, 2.2, 0.1),
    "higgs-strays": (8, False, 0.0, 5.0),
}
# Seconds of a recording, and its seed.
HEARD: Final = (1.31, 4)
SPEED_FRAMES: Final = 40
# Frames that the codec is given.
FRAMES: Final = 33


@dataclass(frozen=True)
class Said:
    """A turn; of so many frames of sound."""

    text: str
    frames: int
    speaker: int = 0

    def codes(self) -> npt.NDArray[np.int16]:
        """[frames, CODEBOOKS]."""
        return codes(self.frames, len(self.text))


@dataclass(frozen=True)
class Case:
    """repeats: a code of the last `window` rows that stood so often is drawn again; window 0 draws
    none again. frames: the most.
    """

    name: str
    checkpoint: str = "higgs"
    text: str = TEXT
    speaker: int = 0
    turns: tuple[Said, ...] = ()
    instructions: str = ""
    seed: int = 16
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.95
    window: int = 0
    repeats: int = 2
    frames: int = 6


TURNS: Final = (Said("Who sings there?", 11, 1), Said("Odd.", 5))
CASES: Final = (
    Case("greedy"),
    Case("greedy after turns of two speakers", turns=TURNS, speaker=1),
    Case("the usual settings in a scene", temperature=0.7, window=7, instructions="A quiet room."),
    Case("settings of its own", text="Odd.", seed=5, temperature=1.2, top_k=20, top_p=0.8),
    Case("repeated codes of a long window", window=16, repeats=1, turns=TURNS[:1], frames=20),
    Case("repeated and drawn", temperature=0.3, top_k=3, window=5, repeats=1, seed=7, frames=12),
    Case("greedy at published head counts", "higgs-heads", turns=TURNS[1:]),
    Case("drawn at published head counts", "higgs-heads", temperature=0.9, seed=8),
    Case("ended by the model", "higgs-ending", temperature=1.0, top_p=1.0, seed=7, frames=60),
    Case("ended by another codebook", "higgs-strays", temperature=1.0, top_p=1.0, frames=60),
)
# Of the third version, which is no case: its rules are read and not run.
THIRD: Final = Case("the third version", "higgs-third", turns=TURNS[:1], frames=6)


def codes(frames: int, seed: int) -> npt.NDArray[np.int16]:
    """[frames, CODEBOOKS]."""
    return drawn_codes(seed, IDS - 2, frames, CODEBOOKS)
