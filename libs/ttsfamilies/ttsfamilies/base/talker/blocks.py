"""KV blocks: who owns which, and what they hold. Plain Python: its tests take microseconds.

A block that holds the beginning of a prompt may be published under a key, and then other streams
whose prompts begin alike read it too. It is never written again while it has a key.

An owner may have branches: sequences of equal length that grow together. Their blocks are in one
table, those of the same positions side by side, so that what happens to an owner happens to all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ttscommon.wire.fields import Array

BLOCK_POSITIONS: Final = 16


def blocks_for(positions: int) -> int:
    """Blocks that hold so many positions."""
    return -(-positions // BLOCK_POSITIONS)


class BlockAllocator:
    """Hands out blocks of `BLOCK_POSITIONS` positions.

    Invariant: every block is free, or has owners (one, or several if it is or was published), or is
    published and kept without an owner, or was taken from its last owner and not yet given back,
    because a launch in flight may still write it. What is kept makes room when blocks run out.
    """

    def __init__(self, blocks: int, keep: int | None = None) -> None:
        """keep: most blocks without an owner that are kept; None for as many as are free."""
        if blocks < 1:
            raise ValueError("a cache needs at least one block")
        self.total = blocks
        self.returning = 0
        self._keep = blocks if keep is None else keep
        self._free = list(range(blocks - 1, -1, -1))
        self._owned: dict[str, list[int]] = {}
        self._owners: Counter[int] = Counter()
        self._keys: dict[int, bytes] = {}
        self._published: dict[bytes, int] = {}
        self._kept: dict[int, None] = {}  # the one that was used longest ago first

    @property
    def free(self) -> int:
        """Blocks that can be handed out, those that are kept included."""
        return len(self._free) + len(self._kept)

    @property
    def kept(self) -> int:
        """Blocks without an owner that are kept for what they hold."""
        return len(self._kept)

    @property
    def idle(self) -> bool:
        """Nothing is owned: what must hold whenever the engine has no streams."""
        return not self._owned and self.free == self.total

    def table(self, owner: str) -> Sequence[int]:
        """The owner's blocks, in the order of the positions they hold."""
        return self._owned.get(owner, ())

    def missing(self, owner: str, positions: int, branches: int = 1) -> int:
        """Blocks that the owner lacks for positions 0 .. positions of each branch; 0 or less for
        none.
        """
        owned = self._owned.get(owner)
        return branches * blocks_for(positions) - (len(owned) if owned else 0)

    def reserve(self, owner: str, positions: int, branches: int = 1) -> bool:
        """Make room for positions 0 .. positions of each branch; False, and nothing changed, if
        there is none.
        """
        missing = self.missing(owner, positions, branches)
        if missing <= 0:
            return True
        if missing > self.free:
            return False
        new = [self._next() for _ in range(missing)]
        self._owned.setdefault(owner, []).extend(new)
        self._owners.update(new)
        return True

    def take(self, owner: str) -> list[int]:
        """Take everything from the owner; returns the blocks that have no owner then.

        They are not free before `give_back`. Others still have owners, or are kept.
        """
        gone = self._leave(self._owned.pop(owner, []))
        self.returning += len(gone)
        return gone

    def give_back(self, blocks: Sequence[int]) -> None:
        """Blocks that were taken may be handed out again."""
        self.returning -= len(blocks)
        self._free.extend(reversed(blocks))

    def freed(self, owners: Iterable[str]) -> int:
        """How many blocks could be handed out if everything were taken from all of these."""
        left = Counter(block for owner in owners for block in self.table(owner))
        return sum(count == self._owners[block] for block, count in left.items())

    # what blocks hold

    def share(self, owner: str, keys: Sequence[bytes], branches: int = 1) -> int:
        """The owner begins a sequence: with published blocks as far as `keys` name any, in order,
        of all branches or of none.

        Returns how many positions of a branch they hold. The owner must write none of them; blocks
        of its last sequence that others may read are its own no longer, so that it writes none of
        those either.
        """
        if not self._keys and not keys:
            return 0
        found = self._find(keys)
        found = found[: len(found) // branches * branches]
        self._owners.update(found)
        for block in found:
            self._kept.pop(block, None)
        before = self._owned.pop(owner, [])
        own = [b for b in before if b not in self._keys and self._owners[b] == 1]
        read = [b for b in before if b in self._keys or self._owners[b] > 1]
        if self._leave(read):
            raise AssertionError("a block that others may read had neither a key nor an owner")
        if found or own:
            self._owned[owner] = [*found, *own]
        return len(found) // branches * BLOCK_POSITIONS

    def publish(self, owner: str, keys: Sequence[bytes]) -> None:
        """The owner's first blocks hold what `keys` name, one each, and will be read alone.

        Branches that begin alike have equal keys there; the block of one of them is published.
        """
        for key, block in zip(keys, self.table(owner), strict=False):
            if key not in self._published and block not in self._keys:
                self._published[key], self._keys[block] = block, key

    def forget(self, owner: str) -> None:
        """What the owner's blocks hold is not to be shared any more."""
        for block in self.table(owner):
            self._withdraw(block)

    def _find(self, keys: Sequence[bytes]) -> list[int]:
        found: list[int] = []
        for key in keys:
            if (block := self._published.get(key)) is None:
                break
            found.append(block)
        return found

    def _next(self) -> int:
        """A block that can be handed out; what has been of no use for longest is given up."""
        return self._free.pop() if self._free else self._given_up()

    def _given_up(self) -> int:
        """The kept block that was used longest ago, which nothing in flight writes."""
        block = next(iter(self._kept))
        del self._kept[block]
        self._withdraw(block)
        return block

    def _leave(self, blocks: Sequence[int]) -> list[int]:
        """An owner has these no longer; returns those without another owner or a key.

        The first blocks of a prompt are kept longer than those behind them, which no request finds
        without them.
        """
        gone = []
        for block in reversed(blocks):
            self._owners[block] -= 1
            if self._owners[block]:
                continue
            del self._owners[block]
            if block in self._keys:
                self._kept[block] = None
                if len(self._kept) > self._keep:
                    self._free.append(self._given_up())
            else:
                gone.append(block)
        return gone[::-1]

    def _withdraw(self, block: int) -> None:
        if (key := self._keys.pop(block, None)) is not None:
            del self._published[key]


# Names for what a prompt begins with: two streams with equal keys compute equal K and V there.


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


def of_branches(*branches: Sequence[bytes]) -> tuple[bytes, ...]:
    """Keys of several branches as blocks lie in a table: those of the same positions side by side.

    Branches that begin alike have equal keys there, and then share blocks.
    """
    return tuple(key for block in zip(*branches, strict=True) for key in block)
