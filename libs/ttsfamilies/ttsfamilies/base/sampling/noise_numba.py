"""`noise` for processors, in compiled loops: the same 24 bits of each number."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import INT, compiled, floats, ints, part, strided

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)  # of the counter


@part
def _mixed(value: np.uint64) -> np.uint64:
    """`noise.mix`."""
    value += _STEP
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@part
def _evenly(key: np.uint64, out: Floats) -> None:
    """`noise.uniforms` of one key."""
    for column in range(len(out)):
        value = _mixed(key + np.uint64(column) * _STEP)
        high = np.int32(value >> np.uint64(40))
        even = (np.float32(high) + np.float32(0.5)) * np.float32(2.0**-24)
        out[column] = min(even, np.float32(1.0 - 2.0**-24))


@compiled(*(strided(ints(1)), strided(ints(1)), ints(1), INT, INT, floats(3), floats(3)))
def even_numbers(
    seed: Ints, frame: Ints, of: Ints, move_draw: int, code_draw: int, moves: Floats, codes: Floats
) -> None:
    """Two draws' numbers of each row's coming frames, [rows, width, ...] in (0, 1). seed, frame: of
    the slots; of: [rows], the slot of each.
    """
    rows, width, _ = moves.shape
    for row in range(rows):
        for place in range(width):
            at = np.uint64(frame[of[row]] + place)
            frame_key = _mixed(_mixed(np.uint64(seed[of[row]])) ^ at)
            _evenly(_mixed(frame_key ^ np.uint64(move_draw)), moves[row, place])
            _evenly(_mixed(frame_key ^ np.uint64(code_draw)), codes[row, place])


@compiled(ints(1), ints(1), INT, floats(2))
def even_rows(seed: Ints, frame: Ints, draw: int, numbers: Floats) -> None:
    """One draw's numbers of each row's frame, [rows, ...] in (0, 1)."""
    for row in range(len(seed)):
        frame_key = _mixed(_mixed(np.uint64(seed[row])) ^ np.uint64(frame[row]))
        _evenly(_mixed(frame_key ^ np.uint64(draw)), numbers[row])
