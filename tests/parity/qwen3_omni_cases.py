"""What the reference is asked of synthetic Qwen3-Omni checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import TEXT, Floats, drawn_codes, normal

WIDTH: Final = 24
# By folder: arguments of write_checkpoint.
CHECKPOINTS: Final[dict[str, dict[str, object]]] = {
    "omni": {"seed": 3},
    "omni-more": {"seed": 7},
    "omni-plain": {"seed": 4, "renormalised": False},
    "omni-ending": {"seed": 5, "ending": 4.0},
    "omni-heads": {"seed": 6, "published": True},
}


@dataclass(frozen=True)
class Prompted:
    """Drawn rows in front of what is said.

    before, behind: of text, around a picture of `grid` (time, height, width) patches, of which two
    by two are a row.
    """

    before: int = 3
    grid: tuple[int, int, int] = (1, 4, 6)
    behind: int = 2

    @property
    def pictures(self) -> int:
        time, height, width = self.grid
        return time * height * width // 4

    @property
    def rows(self) -> int:
        return self.before + self.pictures + self.behind


@dataclass(frozen=True)
class Case:
    """temperature, top_k, top_p: of codebook 0 and of the others. rows: so many drawn rows are
    said in place of `text`; context: rows before them.
    """

    name: str
    checkpoint: str = "omni"
    text: str = TEXT
    speaker: str = "ethan"
    instruction: str = ""
    rows: int = 0
    context: Prompted | None = None
    seed: int = 16
    temperature: tuple[float, float] = (0.0, 0.0)
    top_k: tuple[int, int] = (50, 50)
    top_p: tuple[float, float] = (1.0, 0.8)
    penalty: float = 1.05
    frames: int = 14


_DRAWN: Final = (0.9, 1.0)
CASES: Final = (
    Case("greedy"),
    Case("rows behind a picture", rows=5, context=Prompted()),
    Case("text shorter than its speech", "omni-more", text="Odd.", speaker="chelsie", frames=20),
    Case("after an instruction", "omni-more", instruction="Be odd.", frames=9),
    Case("the usual settings", "omni-more", temperature=_DRAWN, seed=5),
    Case(
        "settings of each part",
        "omni-plain",
        temperature=(1.2, 0.7),
        top_k=(0, 20),
        top_p=(0.9, 0.9),
        penalty=1.4,
        seed=6,
    ),
    Case("weights of experts as they are", "omni-plain", frames=9),
    Case("ended by the model", "omni-ending", frames=60),
    Case("rows that are said", "omni-more", rows=9),
    Case(
        "drawn rows behind pictures",
        "omni-more",
        rows=6,
        context=Prompted(2, (2, 6, 4), 3),
        temperature=_DRAWN,
    ),
    Case("greedy at published head counts", "omni-heads", frames=9),
    Case("drawn at published head counts", "omni-heads", temperature=_DRAWN, seed=8, frames=9),
)


def drawn_rows(case: Case, count: int, part: int) -> Floats:
    """[count, WIDTH], of which a bfloat16 holds every number."""
    values = normal([case.seed, part], count, WIDTH)
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def codes() -> npt.NDArray[np.int16]:
    """What the codec is given, [24, 16]."""
    return drawn_codes(11, 2048, 24, 16)
