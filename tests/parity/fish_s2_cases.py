"""What the reference is asked of synthetic Fish Audio S2 checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import TEXT, drawn_codes

SEED: Final = 3
CODES: Final = 4096
TURNS: Final = (
    "<|speaker:0|>Who is it that sings to the end of the world, she said.\n"
    "<|speaker:1|>The user sings, and it is odd, said the other one to her."
)
# By folder: seed; codebooks; whether it has the published head counts; how loudly it asks for the
# end.
CHECKPOINTS: Final = {
    "fish": (SEED, 4, False, 0.0),
    "fish-heads": (SEED, 10, True, 0.0),
    "fish-ending": (8, 4, False, 3.0),
}


@dataclass(frozen=True)
class Heard:
    """A speaker's recording: so many frames of codes, and its words."""

    text: str
    frames: int

    def codes(self, codebooks: int) -> npt.NDArray[np.int16]:
        """[frames, codebooks]."""
        return drawn_codes(len(self.text), 1024, self.frames, codebooks)


# Each checkpoint's voices.
VOICES: Final = {
    "one": (Heard("Who sings there?", 11),),
    "two": (Heard("Who sings there?", 7), Heard("Odd.", 5)),
}


@dataclass(frozen=True)
class Case:
    """window: frames in which a repeated code is sought. frames: the most of a batch; chunk_length:
    its bytes.
    """

    name: str
    checkpoint: str = "fish"
    text: str = TEXT
    voice: str = "one"
    seed: int = 16
    temperature: float = 0.0
    top_k: int = 30
    top_p: float = 0.8
    window: int = 10
    frames: int = 8
    chunk_length: int = 200


CASES: Final = (
    Case("greedy"),
    Case("greedy, two voices", voice="two", text=TURNS, frames=6),
    Case("the usual settings", temperature=0.8, frames=12),
    Case("batch behind batch", text=TURNS, voice="two", chunk_length=100, temperature=0.8),
    Case("settings of its own", text="Odd.", seed=5, temperature=1.2, top_k=0, top_p=0.9),
    Case("repeated codes", temperature=0.7, top_k=2, top_p=1.0, seed=7, frames=14),
    Case("greedy at published head counts", "fish-heads", frames=5),
    Case("drawn at published head counts", "fish-heads", temperature=0.8, seed=8, frames=5),
    Case(
        "ended by the model", "fish-ending", temperature=1.0, top_p=1.0, top_k=0, seed=7, frames=60
    ),
)
