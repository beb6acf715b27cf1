"""Names for what a prompt begins with: two streams with equal keys compute equal K and V there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ttscommon.wire.fields import Array
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS

_BYTES = 16


def keys(arrays: Sequence[Array], positions: int, whole: bytes = b"") -> tuple[bytes, ...]:
    """A key for every block that lies within the first `positions`.

    arrays: all that those positions are told, a row each. whole: what is told beside them. A key
    stands for its own block and all before it, as K and V do.
    """
    known, found = hashlib.blake2b(whole, digest_size=_BYTES).digest(), []
    for end in range(BLOCK_POSITIONS, positions + 1, BLOCK_POSITIONS):
        block = hashlib.blake2b(known, digest_size=_BYTES)
        for array in arrays:
            block.update(array[end - BLOCK_POSITIONS : end].tobytes())
        known = block.digest()
        found.append(known)
    return tuple(found)


def of_lanes(*lanes: Sequence[bytes]) -> tuple[bytes, ...]:
    """Keys of several lanes as blocks lie in a table: those of the same positions side by side.

    Lanes that begin alike have equal keys there, and then share blocks.
    """
    return tuple(key for block in zip(*lanes, strict=True) for key in block)
