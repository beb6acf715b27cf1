"""Room for a bounded number of streams, with a check that none of it leaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class NoSlot(Exception):
    """Every slot is taken, or the key holds one already."""


class Slots(Generic[T]):
    """At most `capacity` streams by key, each with the index of its row in per-slot state.

    There are `spare` more indices than streams: an index that was released may still be written
    by a launch in flight, and comes back by `give_back`.
    """

    def __init__(self, capacity: int, spare: int = 0) -> None:
        if capacity < 1 or spare < 0:
            raise ValueError("there is at least one slot")
        self.capacity = capacity
        self.rows = capacity + spare
        self._held: dict[str, tuple[T, int]] = {}
        self._indices = list(range(self.rows - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[T]:
        return iter([stream for stream, _ in self._held.values()])

    def __contains__(self, key: str) -> bool:
        return key in self._held

    @property
    def free(self) -> int:
        return self.capacity - len(self._held)

    @property
    def idle(self) -> bool:
        """No stream, and every index is back."""
        return not self._held and len(self._indices) == self.rows

    def require(self, key: str) -> None:
        """Raise NoSlot unless `take(key, ...)` would succeed now."""
        if key in self._held:
            raise NoSlot(f"{key} holds a slot already")
        if not self.free or not self._indices:
            raise NoSlot(f"all {self.capacity} slots are taken")

    def take(self, key: str, stream: T) -> int:
        """Hold a slot for `stream` and get its index; raises NoSlot."""
        self.require(key)
        index = self._indices.pop()
        self._held[key] = stream, index
        return index

    def get(self, key: str) -> T | None:
        held = self._held.get(key)
        return None if held is None else held[0]

    def release(self, key: str) -> tuple[T, int] | None:
        """The stream and its index, which is not free before `give_back`; None the second time."""
        return self._held.pop(key, None)

    def give_back(self, index: int) -> None:
        """The index may be taken again."""
        if index in self._indices:
            raise AssertionError(f"slot {index} was given back twice")
        self._indices.append(index)
