"""What a user says to a model that hears: noise, with what is quiet around it."""

from __future__ import annotations

import random
from array import array

HZ = 24_000
_BLOCK_S = 0.1
QUIET, LOUD = 0, 3000
# Loudness in samples, and seconds.
TURN = ((QUIET, 0.4), (LOUD, 0.7), (QUIET, 0.7))


def blocks(*parts: tuple[int, float]) -> list[bytes]:
    """Of 24 kHz, a tenth of a second each."""
    dice, count = random.Random(3), int(HZ * _BLOCK_S)
    every = [loud for loud, seconds in parts for _ in range(round(seconds / _BLOCK_S))]
    made = ((round(dice.gauss(0, loud)) for _ in range(count)) for loud in every)
    return [array("h", samples).tobytes() for samples in made]
