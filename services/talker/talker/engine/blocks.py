"""KV blocks: who owns which. Plain Python, so that it is tested in microseconds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

BLOCK_POSITIONS: Final = 16


class BlockAllocator:
    """Hands out blocks of `BLOCK_POSITIONS` positions.

    Invariant: every block is either free or owned by exactly one owner.
    """

    def __init__(self, blocks: int) -> None:
        if blocks < 1:
            raise ValueError("a cache needs at least one block")
        self.total = blocks
        self._free = list(range(blocks - 1, -1, -1))
        self._owned: dict[Hashable, list[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def idle(self) -> bool:
        """Nothing is owned: what must hold whenever the engine has no streams."""
        return not self._owned and len(self._free) == self.total

    def table(self, owner: Hashable) -> tuple[int, ...]:
        """The owner's blocks, in the order of the positions they hold."""
        return tuple(self._owned.get(owner, ()))

    def reserve(self, owner: Hashable, positions: int) -> bool:
        """Make room for positions 0 .. positions; False, and nothing changed, if there is none."""
        owned = self._owned.get(owner, [])
        missing = -(-positions // BLOCK_POSITIONS) - len(owned)
        if missing > len(self._free):
            return False
        if missing > 0:
            self._owned[owner] = owned + [self._free.pop() for _ in range(missing)]
        return True

    def release(self, owner: Hashable) -> None:
        """Take back everything the owner has."""
        self._free.extend(reversed(self._owned.pop(owner, [])))
