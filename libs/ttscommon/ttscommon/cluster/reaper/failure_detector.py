"""Detection of dead workers: pings decide, and the broker's report of a disconnect makes it fast.

A subject without a subscriber answers "no responders" at once, so an absence is known and not
guessed. It must last, because a worker whose broker died is absent until it has found another.
"""

from __future__ import annotations

import time
from enum import Enum, auto

from ttscommon.bus import Bus
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders


class Verdict(Enum):
    """What a ping tells of a worker."""

    ALIVE = auto()
    DOUBTFUL = auto()
    GONE = auto()
    SILENT = auto()


class FailureDetector:
    """Pings workers and remembers since when each has not answered."""

    def __init__(self, bus: Bus, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._tuning = tuning
        self._absent_s: dict[str, float] = {}
        self._silent_s: dict[str, float] = {}
        self._back_s = 0.0

    def came_back(self) -> None:
        """This process has just found its broker again."""
        self._back_s = time.monotonic()

    def forget_others(self, workers: set[str]) -> None:
        """Only `workers` matter any more."""
        for known in (self._absent_s, self._silent_s):
            for worker_id in known.keys() - workers:
                del known[worker_id]

    async def check(self, worker_id: str, *, reported: bool = False) -> Verdict:
        """Ping a worker. `reported`: the broker said that its connection ended."""
        asked_s = time.monotonic()
        try:
            await self._bus.link.request(subjects.ping(worker_id), b"", self._tuning.ping_s)
        except NoResponders:
            return self._absent(worker_id, asked_s, reported)
        except BusUnavailable:
            return self._silent(worker_id, asked_s)
        self._absent_s.pop(worker_id, None)
        self._silent_s.pop(worker_id, None)
        return Verdict.ALIVE

    def doubted_s(self, worker_id: str) -> float | None:
        """For how long a worker that was absent may yet come back; None if it was not."""
        since_s = self._absent_s.get(worker_id)
        if since_s is None:
            return None
        now = time.monotonic()
        return max(0.0, since_s + self._enough_s(now, reported=False) - now)

    def _absent(self, worker_id: str, asked_s: float, reported: bool) -> Verdict:
        since_s = self._absent_s.setdefault(worker_id, asked_s)
        lasted_s = time.monotonic() - since_s
        enough_s = self._enough_s(asked_s, reported)
        return Verdict.GONE if lasted_s >= enough_s else Verdict.DOUBTFUL

    def _enough_s(self, asked_s: float, reported: bool) -> float:
        tuning = self._tuning
        if asked_s - self._back_s < tuning.reunion_s or not self._bus.connected:
            return tuning.reunion_s
        return 0.0 if reported else tuning.gone_s

    def _silent(self, worker_id: str, asked_s: float) -> Verdict:
        now = time.monotonic()
        self._absent_s.pop(worker_id, None)
        late = now - asked_s > self._tuning.ping_s + self._tuning.late_s
        if late or not self._bus.connected or asked_s < self._back_s:
            self._silent_s.pop(worker_id, None)
            return Verdict.DOUBTFUL
        since_s = self._silent_s.setdefault(worker_id, asked_s)
        return Verdict.SILENT if now - since_s >= self._tuning.silent_s else Verdict.DOUBTFUL
