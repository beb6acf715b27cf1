"""What Tacotron 2 and its reference are asked. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.parity.material import Floats

SEED: Final = 5
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# The LJSpeech recipe's, in front of its phones.
SYMBOLS: Final = f"_-!'(),.:;? {_LETTERS}{_LETTERS.lower()}"
STRIDE: Final = 5
# Of the published widths, whose frames are many numbers.
PUBLISHED: Final = "published"


@dataclass(frozen=True)
class Case:
    """told: the sentences as the reference is told them. dropout: of the prenet. limit: frames of
    all sentences together, none for the reference's own.
    """

    name: str
    text: str
    told: tuple[str, ...]
    seed: int = 1
    dropout: float = 0.5
    threshold: float = 0.5
    limit: int | None = None
    checkpoint: str = "tacotron2"


CASES: Final = (
    Case("a sentence", "It's odd, is it?", ("it's odd, is it?",)),
    Case("sentences", "Is it? It is 3 miles.", ("is it?", "it is three miles."), 2, threshold=0.4),
    Case("nothing dropped", "So it is", ("so it is.",), dropout=0.0, limit=24),
    Case("a limit", "The end of it all.", ("the end of it all.",), seed=3, limit=9),
    Case("little dropped", "Odd!", ("odd!",), seed=4, dropout=0.1),
    Case("soon sure", "It is the end.", ("it is the end.",), seed=6, threshold=0.2),
)
WIDE: Final = Case(*("published widths", "It is.", ("it is.",), 7), limit=6, checkpoint=PUBLISHED)
HEARD: Final = CASES[1]
"""Whose frames the codec is given."""


def drawn(seed: int, frame: int, layer: int, width: int) -> Floats:
    """Even noise of a layer of the prenet, [width]: what lies below the share is dropped."""
    random = np.random.Generator(np.random.PCG64([seed, frame, layer]))
    return random.random(width).astype(np.float32)


def ids(told: str) -> list[int]:
    """By the recipe's table."""
    return [SYMBOLS.index(symbol) for symbol in told]
