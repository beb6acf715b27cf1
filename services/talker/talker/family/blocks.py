"""KV blocks: who owns which. Plain Python, so that it is tested in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BLOCK_POSITIONS: Final = 16


def blocks_for(positions: int) -> int:
    """Blocks that hold so many positions."""
    return -(-positions // BLOCK_POSITIONS)


class BlockAllocator:
    """Hands out blocks of `BLOCK_POSITIONS` positions.

    Invariant: every block is free, or owned by exactly one owner, or taken from its owner and not
    yet given back, because a launch in flight may still write it.
    """

    def __init__(self, blocks: int) -> None:
        if blocks < 1:
            raise ValueError("a cache needs at least one block")
        self.total = blocks
        self.returning = 0
        self._free = list(range(blocks - 1, -1, -1))
        self._owned: dict[str, list[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def idle(self) -> bool:
        """Nothing is owned: what must hold whenever the engine has no streams."""
        return not self._owned and len(self._free) == self.total

    def table(self, owner: str) -> Sequence[int]:
        """The owner's blocks, in the order of the positions they hold."""
        return self._owned.get(owner, ())

    def missing(self, owner: str, positions: int) -> int:
        """Blocks that the owner lacks for positions 0 .. positions; 0 or less if none."""
        owned = self._owned.get(owner)
        return blocks_for(positions) - (len(owned) if owned else 0)

    def reserve(self, owner: str, positions: int) -> bool:
        """Make room for positions 0 .. positions; False, and nothing changed, if there is none."""
        missing = self.missing(owner, positions)
        if missing <= 0:
            return True
        if missing > len(self._free):
            return False
        owned = self._owned.setdefault(owner, [])
        owned += [self._free.pop() for _ in range(missing)]
        return True

    def take(self, owner: str) -> list[int]:
        """Take everything from the owner. The blocks are not free before `give_back`."""
        blocks = self._owned.pop(owner, [])
        self.returning += len(blocks)
        return blocks

    def give_back(self, blocks: Sequence[int]) -> None:
        """Blocks that were taken may be handed out again."""
        self.returning -= len(blocks)
        self._free.extend(reversed(blocks))
