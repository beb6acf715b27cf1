"""What the references are asked of synthetic CosyVoice checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import TEXT, drawn_codes

SEED: Final = 3
IDS: Final = 6561 + 200
SAID: Final = "Hello, you said."
SPEED_TOKENS: Final = 60
# Recordings: seconds, by rate.
RATES: Final = {16_000: 1.31, 24_000: 2.2, 44_100: 1.7}
STRIDE: Final = 7
# By folder: version, whether it has the published head counts, how loudly it asks for the end and
# for more text.
CHECKPOINTS: Final = {
    "cosyvoice2": (2, False, 0.0, 0.0),
    "cosyvoice2-heads": (2, True, 0.0, 0.0),
    "cosyvoice2-turns": (2, False, 2.5, 2.2),
    "cosyvoice3": (3, False, 0.0, 0.0),
}


@dataclass(frozen=True)
class Case:
    """said: in the recording of so many tokens; without, it is the codec's alone. how: in words.
    greedy: the likeliest id, repeated or not.
    """

    name: str
    checkpoint: str = "cosyvoice2"
    text: str = TEXT
    said: str = SAID
    heard: int = 20
    how: str = ""
    streamed: bool = False
    greedy: bool = False
    seed: int = 16
    tokens: int = 26

    @property
    def version(self) -> int:
        return CHECKPOINTS[self.checkpoint][0]


_MODES: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("zero-shot", {}),
    ("cross-lingual", {"said": ""}),
    ("under an instruction", {"how": "Sing it."}),
)
CASES: Final = (
    *(
        Case(
            f"{version}, {mode}{', streamed' * streamed}{', greedy' * greedy}",
            f"cosyvoice{version}",
            said=told.get("said", SAID),
            how=told.get("how", ""),
            streamed=streamed,
            greedy=greedy,
        )
        for version in (2, 3)
        for mode, told in _MODES
        for streamed in (False, True)
        # Version 3 speaks before it is told any text where a streamed prompt has no speech.
        if version == 2 or not streamed or not told
        for greedy in (False, True)
        if not greedy or not told
    ),
    Case("2, published head counts", "cosyvoice2-heads", streamed=True),
    Case("2, published head counts, greedy", "cosyvoice2-heads", greedy=True, tokens=12),
    Case("2, asks for text early", "cosyvoice2-turns", streamed=True, seed=5),
    Case("2, asks for text again", "cosyvoice2-turns", streamed=True, said="", seed=6),
    Case("2, ended by the model", "cosyvoice2-turns", seed=8, text="Odd.", tokens=60),
    Case("2, ended by the model, streamed", "cosyvoice2-turns", streamed=True, seed=9, tokens=100),
    Case("2, too little text for the recording", streamed=True, heard=47, text="Odd.", tokens=20),
    Case("2, a recording of whole turns", streamed=True, heard=30, said=TEXT),
    Case("3, a recording of whole turns", "cosyvoice3", streamed=True, heard=15, said=TEXT),
)


def heard(case: Case) -> npt.NDArray[np.int16]:
    """Tokens of the case's recording."""
    return drawn_codes([SEED, case.heard], 6561, case.heard)
