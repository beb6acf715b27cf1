"""Room for a bounded number of streams, and the part of it that streams of jobs may take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

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


# A step that took too long makes the next ones smaller by this; others make them so much larger.
_LESS: Final = 0.7
_MORE: Final = 0.25


@dataclass(frozen=True)
class OfflineTuning:
    """Streams of jobs beside listeners' at an engine."""

    slack_s: float = 2.0
    """Playback that every listener has left when a step holds any of them."""
    step_s: float = 0.010
    """How long a step with some of them may take while a listener is expected."""
    share: float = 0.5
    """Of the time, that such steps take at the most."""
    positions: int = 64
    """Positions of a prompt of theirs in such a step, at most."""
    expected_s: float = 10.0
    """For so long after the last listener the next one is expected."""
    first_s: float = 0.5
    """So long a talker waits for a text that is being read, and a vocoder for the first codes of a
    stream, and take no step for jobs.
    """


class OfflineShare:
    """An engine's listeners, as far as they matter to its streams of jobs, and what those may take.

    Times are the engine's clock's. `size`: what a step may hold while a listener is expected, in
    streams or in frames; it follows from what such steps took.
    """

    def __init__(self, tuning: OfflineTuning = OfflineTuning()) -> None:
        self.tuning = tuning
        self._size = 1.0
        self._expected_until_s = self._held_until_s = self._rests_until_s = -math.inf

    @property
    def size(self) -> int:
        return int(self._size)

    def heard(self, now: float) -> None:
        """A stream with a listener is open."""
        self._expected_until_s = now + self.tuning.expected_s

    def coming(self, now: float) -> None:
        """A stream with a listener is about to be opened."""
        self.heard(now)
        self._held_until_s = now + self.tuning.first_s

    def expects(self, now: float) -> bool:
        """Whether a listener may come at any moment: one was here lately."""
        return now < self._expected_until_s

    def pause_s(self, now: float) -> float:
        """For how long there is no step for jobs, whatever listeners need; 0 or less for none."""
        return max(self._held_until_s, self._rests_until_s) - now

    def wait_s(self, now: float, most_s: float) -> float:
        """For how long an engine that found nothing to do waits, if no command comes."""
        pause_s = self.pause_s(now)
        return min(most_s, pause_s) if pause_s > 0.0 else most_s

    def stepped(self, now: float, took_s: float, size: int) -> None:
        """A step with streams of jobs in it, of this size, took so long."""
        if not self.expects(now):
            return
        self._rests_until_s = now + took_s * (1.0 / self.tuning.share - 1.0)
        if took_s > self.tuning.step_s:
            self._size = max(1.0, self._size * _LESS)
        elif size >= self.size:
            self._size += _MORE
