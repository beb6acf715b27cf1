"""What the reference is asked of synthetic Kyutai TTS checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import drawn_codes

SEED: Final = 3
# A config.json of the published sizes, of which the reference tells names and shapes.
PUBLISHED: Final = "kyutai-sizes.json"
# More ids than any draw is among.
IDS: Final = 2080
TEXT: Final = "Odd: (sing er) it\u2019s one!"
# By folder: codebooks; whether it has the published head counts; seconds that sound is behind the
# text; steps that one attends to; how loudly the text asks for new words.
CHECKPOINTS: Final[dict[str, tuple[int, bool, float, int, float]]] = {
    "kyutai": (6, False, 0.32, 500, -3.0),
    "kyutai-published": (32, False, 1.28, 500, -3.0),
    "kyutai-near": (4, False, 0.24, 19, -3.0),
    "kyutai-heads": (3, True, 0.16, 500, 2.5),
}


@dataclass(frozen=True)
class Case:
    """temperature: 0 is greedy. guidance: a distilled coefficient. between, initial, most: see the
    package's padding_between, initial_padding and max_padding.
    """

    name: str
    checkpoint: str = "kyutai"
    text: str = TEXT
    voice: str = "slt"
    seed: int = 16
    temperature: float = 0.0
    top_k: tuple[int, int] = (25, 250)
    guidance: float = 2.0
    bonus: float = 0.0
    between: int = 1
    initial: int = 2
    most: int = 8


CASES: Final = (
    Case("one word", text="Odd."),
    Case("greedy"),
    Case("the usual settings", temperature=0.6),
    Case("another voice, more guidance", voice="odd/one", guidance=3.5, temperature=0.6, seed=5),
    Case("slower", bonus=2.0, temperature=0.6, seed=7),
    Case("faster", bonus=-2.0, temperature=0.9, between=0, seed=8),
    Case("other padding", initial=5, most=3, between=2, temperature=0.6, top_k=(9, 20)),
    Case("two words, one unknown", text="Odd \u00df\u00df\u00dfs\u00df."),
    Case("the published delay and codebooks", "kyutai-published", "Say.", temperature=0.6),
    Case("a window that forgets", "kyutai-near", temperature=0.6, seed=2),
    Case("greedy at published head counts", "kyutai-heads", "Odd."),
    Case("drawn at published head counts", "kyutai-heads", "Say.", temperature=0.6, seed=8),
)


def codes() -> npt.NDArray[np.int16]:
    """What the codec is given, [21, codebooks]."""
    return drawn_codes(SEED, 2048, 21, 32)


def settings(case: Case) -> dict[str, Any]:
    """Of the draws, for LMGen."""
    if not case.temperature:
        return {"use_sampling": False}
    return {"top_k_text": case.top_k[0], "top_k": case.top_k[1]}
