"""What Step-Audio 2's flow is given: a recording, and tokens that fill its window. No torch."""

from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import drawn_codes
from tests.parity.s3_cases import MELS, PROMPT, recording

NAME: Final = "step_flow"
"""Of the goldens, and of the reference's environment."""
CHUNK, LOOKAHEAD = 25, 3
MEL_STRIDE: Final = 4
# Of an answer: chunks until the window is cut, and cut again; then what is left for the last one.
LENGTHS: Final = {"long": 6 * CHUNK + 9, "a whole chunk and what it looked at": 28, "short": 4}


def tokens(name: str) -> npt.NDArray[np.int16]:
    """Of the answer of this name."""
    return drawn_codes([1, LENGTHS[name]], 6561, LENGTHS[name])


def chunks(count: int) -> list[tuple[int, int, bool]]:
    """Of so many tokens: from where to where each call is given them, and whether it is the last.

    As the authors' loop has it: a call takes a chunk and what it looks ahead to.
    """
    found, at = [], 0
    while count - at >= CHUNK + LOOKAHEAD:
        found.append((at, at + CHUNK + LOOKAHEAD, False))
        at += CHUNK
    return [*found, (at, count, True)]


__all__ = ["MELS", "PROMPT", "recording"]
