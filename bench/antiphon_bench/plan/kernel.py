"""Virtual time: what happens when, on how many cores, and who waits in line."""

from __future__ import annotations

import gc
import heapq
import math
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

Action = Callable[[], object]

# How long work of the past counts as load of a node.
_MEMORY_S: Final = 0.5
# Of a machine that is left to engines, whatever else there is.
_LEAST: Final = 0.1


class Kernel:
    """Runs actions in the order of their moments; those of one moment as they were scheduled."""

    def __init__(self) -> None:
        self.now = 0.0
        self._coming: list[tuple[float, int, Action]] = []
        self._order = count()

    def at(self, when_s: float, action: Action) -> None:
        """Do it at `when_s`, or now if that is over."""
        moment = max(when_s, self.now)
        heapq.heappush(self._coming, (moment, next(self._order), action))

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now + seconds, action)

    def run(self, until_s: float = math.inf) -> None:
        """Until nothing is left to do, or nothing before `until_s`."""
        coming, before = self._coming, gc.get_threshold()
        gc.set_threshold(100_000, 20, 20)  # looking for cycles would take a fifth of the time
        try:
            while coming and coming[0][0] <= until_s:
                self.now, _, action = heapq.heappop(coming)
                action()
        finally:
            gc.set_threshold(*before)


class Lately:
    """Processor time, of which less counts the longer it is ago."""

    def __init__(self) -> None:
        self._seconds = self._at_s = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._seconds = self._seconds * self._decay(now) + seconds
        self._at_s = max(self._at_s, now)

    def cores(self, now: float) -> float:
        """How many that was."""
        return self._seconds * self._decay(now) / _MEMORY_S

    def _decay(self, now: float) -> float:
        return math.exp((min(self._at_s, now) - now) / _MEMORY_S)


class Node:
    """A machine. What computes on it shares its cores fairly.

    `computing`: engine steps under way. `worked`: other processes count by what they worked lately.
    `idle`: cores that all processes together take without any request.
    """

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self.computing = 0
        self.idle = 0.0
        self.worked = Lately()

    def stretch(self, now: float, own: float = 0.0) -> float:
        """How many times as long work takes that begins now as on a core of its own.

        Processes that are no engines take what they need, a little at a time; the rest is shared
        by all that computes for longer. `own`: cores that the process itself took lately: it does
        not wait for itself.
        """
        left = max(_LEAST * self.cores, self.cores - self._others(now) + own)
        return max(1.0, (self.computing + 1) / left)

    def crowding(self, now: float) -> float:
        """For how much of its time, 0 to 1, all other cores work while a step begins.

        Of a machine without bounds always: a fleet is planned for machines that are full.
        """
        if self.cores == math.inf:
            return 1.0
        load = self.computing + self._others(now)
        return min(1.0, load / (self.cores - 1.0)) if self.cores > 1.0 else 0.0

    def _others(self, now: float) -> float:
        """Cores that processes take which are no engines."""
        return self.worked.cores(now) + self.idle


class Station:
    """A process that does one thing after another, in the order in which they came.

    Without a `node` it never waits for a processor; elsewhere what it waits is spread as widely as
    its mean is long. `servers`: so many things at once. `worked_s`: processor time so far.
    """

    def __init__(
        self, kernel: Kernel, node: Node | None = None, servers: int = 1, name: str = ""
    ) -> None:
        self._kernel = kernel
        self._node = node or Node(math.inf)
        self._dice = Random(f"waits {name}")
        self._lately = Lately()
        self._free_s = [0.0] * servers
        self.worked_s = 0.0

    def stretch(self) -> float:
        """How many times as long a piece of its work takes that begins now."""
        now = self._kernel.now
        mean = self._node.stretch(now, self._lately.cores(now)) - 1.0
        return 1.0 + mean * self._dice.expovariate(1.0) if mean else 1.0

    def serve(self, work_s: float, then: Action) -> None:
        """Work for so long when it is this one's turn, and do `then`."""
        took_s, now = work_s * self.stretch(), self._kernel.now
        self.worked_s += work_s
        for lately in (self._lately, self._node.worked):
            lately.add(work_s, now)
        began_s = max(now, heapq.heappop(self._free_s))
        heapq.heappush(self._free_s, began_s + took_s)
        self._kernel.at(began_s + took_s, then)
