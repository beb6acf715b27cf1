"""The roster of workers, and detection of the dead among them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.jobs import grew
from ttscommon.cluster.leases import Count, Lease
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, MalformedMessage, NoResponders
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import REPLICAS, STAGES


class Roster:
    """A worker stays in it until it is known to be gone, also when its report has expired.

    One that loads its first model is not in it yet: it holds nothing, and answers no ping.
    """

    def __init__(self, bus: Bus) -> None:
        self.replicas: list[Replica] = []
        self._bus = bus
        self._missing: set[str] = set()
        self._stages: dict[str, str] = {}

    async def refresh(self) -> None:
        """Read who reports; raises BusUnavailable."""
        reports = await self._bus.kv.all(REPLICAS)
        self.take([one for value in reports.values() if (one := _parse(value))])

    def take(self, reports: Iterable[Replica]) -> None:
        """These are all that report."""
        before = self._reporting()
        self.replicas = [one for one in reports if one.models or not one.loading]
        self._missing = (self._missing | before) - self._reporting()
        known = {worker: stage for worker, stage in self._stages.items() if worker in self._missing}
        self._stages = known | {replica.worker_id: replica.stage for replica in self.replicas}

    def stage_of(self, worker_id: str) -> str | None:
        """The stage of a worker that reports, or did when it was last seen."""
        return self._stages.get(worker_id)

    def add(self, workers: Iterable[str]) -> None:
        """Workers that hold jobs, whether they report or not."""
        self._missing |= set(workers) - self._reporting()

    def workers(self) -> set[str]:
        return self._missing | self._reporting()

    def gone(self, worker_id: str) -> None:
        """There is no such worker any more. While its report lasts it may come back."""
        self._missing.discard(worker_id)

    def _reporting(self) -> set[str]:
        return {replica.worker_id for replica in self.replicas}


def _parse(value: bytes) -> Replica | None:
    try:
        return Replica.decode(value)
    except MalformedMessage:
        return None


# So many jobs may be blamed for one death.
_FEW: Final = 3

log_ = structlog.get_logger(__name__)


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

    @property
    def doubts(self) -> bool:
        """Whether a worker gave no answer when it was asked last."""
        return bool(self._absent_s or self._silent_s)

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


async def after_death(
    bus: Bus, held: Sequence[Lease], timeout_s: float, *, silent: bool = False
) -> list[Lease]:
    """The leases of a worker that died abruptly, without it, as their next holders get them.

    `silent`: it was given up because it gave no answer, and may still live.

    Each log may take `timeout_s` to say whether it grew; one that does not leaves its job's figures
    as they are.
    """
    grown = await asyncio.gather(*(_grew(bus, lease, timeout_s) for lease in held))
    blamed = Counter(
        lease.deaths for lease, grew_ in zip(held, grown, strict=True) if _may_have(lease, grew_)
    )
    if max(blamed.values(), default=0) > _FEW:
        log_.warning("worker.suspected", worker_id=held[0].worker_id, jobs=blamed.total())
    return [
        _after(lease, grew_, _count(blamed[lease.deaths], silent=silent))
        for lease, grew_ in zip(held, grown, strict=True)
    ]


def _count(blamed: int, *, silent: bool) -> Count:
    """`blamed`: jobs that are as suspicious."""
    if silent:
        return "silences"
    return "shared" if blamed > _FEW else "deaths"


def _after(lease: Lease, grown: bool | None, count: Count) -> Lease:
    if _may_have(lease, grown):
        return lease.after_death(count)
    if grown and lease.held:
        return lease.cleared()
    return lease.released()


def _may_have(lease: Lease, grown: bool | None) -> bool:
    """Whether the job may have killed its worker."""
    return grown is False and lease.held and not lease.waiting


async def _grew(bus: Bus, lease: Lease, timeout_s: float) -> bool | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await grew(bus, STAGES[lease.stage].writes, lease.request_id, lease.epoch)
    except TimeoutError:
        return None
