"""Room for a bounded number of streams, with a check that none of it leaks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class NoSlot(Exception):
    """Every slot is taken, or the key holds one already."""


class Slots(Generic[T]):
    """At most `capacity` streams by key. `taken - released` is always what is held."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("there is at least one slot")
        self.capacity = capacity
        self._held: dict[Hashable, T] = {}
        self._taken = 0
        self._released = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._held.values()))

    @property
    def free(self) -> int:
        return self.capacity - len(self._held)

    @property
    def idle(self) -> bool:
        return not self._held

    def require(self, key: Hashable) -> None:
        """Raise NoSlot unless `take(key, ...)` would succeed now."""
        if key in self._held:
            raise NoSlot(f"{key} holds a slot already")
        if not self.free:
            raise NoSlot(f"all {self.capacity} slots are taken")

    def take(self, key: Hashable, stream: T) -> None:
        """Hold a slot for `stream`; raises NoSlot."""
        self.require(key)
        self._held[key] = stream
        self._taken += 1

    def get(self, key: Hashable) -> T | None:
        return self._held.get(key)

    def release(self, key: Hashable) -> T | None:
        """Give the slot back; None if it was given back before."""
        stream = self._held.pop(key, None)
        if stream is not None:
            self._released += 1
        return stream

    def check_idle(self, open_states: int) -> None:
        """Nothing may be left when nobody speaks: no slot, and no decoder state behind one."""
        if self._held or self._taken != self._released or open_states:
            raise AssertionError(
                f"leak: {len(self._held)} slots held, {self._taken} taken, "
                f"{self._released} released, {open_states} decoder states open"
            )
