"""Variation of the teacher's readings: one becomes many, in pace, rhythm and melody.

The teacher reads a text in one way only. Its durations, pitch and energy can be changed before
its decoder is told, at no cost in how natural it sounds.
"""

from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array
from ttsfamilies.vesper.codec.layers import VOICED_HZ
from ttsfamilies.vesper.codec.net import MIDDLE_HZ

LEAD_UNITS: Final = 2
TAIL_UNITS: Final = 2
PACE_RANGE: Final = (0.67, 1.5)
RHYTHM: Final = 0.1
WALK: Final = 0.04
WALK_KNOT_HOPS: Final = 40
LEVEL: Final = 0.02
RANGE: Final = 0.1


class Manner(NamedTuple):
    """How an utterance departs from the teacher's reading.

    pace: speed that the talker is told, 1 is the teacher's. level: change of log pitch.
    span: factor on the pitch's distance from the speaker's middle.
    """

    pace: float
    level: float
    span: float


def draw_manner(generator: np.random.Generator) -> Manner:
    """Mostly near the teacher's pace, sometimes anywhere in PACE_RANGE."""
    if generator.random() < 0.5:
        pace = float(np.exp(generator.normal(0.0, 0.05)))
    else:
        pace = float(np.exp(generator.uniform(*np.log(PACE_RANGE))))
    level = float(generator.normal(0.0, LEVEL))
    return Manner(pace, level, float(np.exp(generator.normal(0.0, RANGE))))


def spread(units: Array) -> Array:
    """Real durations -> whole ones of at least 1, each token's end as near as can be."""
    whole = np.empty(len(units), np.int64)
    wanted, used = 0.0, 0
    for index, duration in enumerate(units):
        wanted += float(duration)
        whole[index] = max(1, round(wanted - used))
        used += int(whole[index])
    return whole


def durations(units: Array, pace: float, generator: np.random.Generator | None = None) -> Array:
    """The durations of an utterance at a pace, [tokens] int64, an even number of units in all.

    units: the teacher's, real. The silences at both ends become LEAD_UNITS and TAIL_UNITS (one
    more where that makes the number even). A generator varies the rhythm.
    """
    inner = np.maximum(np.asarray(units[1:-1], np.float64), 1.0) / pace
    if generator is not None:
        inner *= np.exp(generator.normal(0.0, RHYTHM, len(inner)))
    inner = spread(inner)
    tail = TAIL_UNITS + (LEAD_UNITS + TAIL_UNITS + int(inner.sum())) % 2
    return np.concatenate([[LEAD_UNITS], inner, [tail]])


def shifted(f0: Array, level: float, span: float) -> Array:
    """Pitch in Hz with another level (added in log) and range; unvoiced hops stay as they are."""
    away = np.log(np.maximum(f0, VOICED_HZ) / MIDDLE_HZ)
    return np.where(f0 > VOICED_HZ, MIDDLE_HZ * np.exp(level + span * away), f0).astype(np.float32)


def walked(f0: Array, generator: np.random.Generator) -> Array:
    """Pitch with a slow random walk around it: a knot each half second, straight in between."""
    knots = len(f0) // WALK_KNOT_HOPS + 2
    heights = generator.normal(0.0, WALK, knots)
    walk = np.interp(np.arange(len(f0)) / WALK_KNOT_HOPS, np.arange(knots), heights)
    return np.where(f0 > VOICED_HZ, f0 * np.exp(walk), f0).astype(np.float32)
