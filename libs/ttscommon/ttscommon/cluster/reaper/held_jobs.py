"""The jobs that workers report as held, and leases of jobs that are done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease, all_leases, forget
from ttscommon.cluster.reaper.failure_detector import Roster
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import ASKED, Holding
from ttscommon.wire.errors import BusUnavailable, MalformedMessage, NoResponders
from ttscommon.wire.subjects import STAGES


class HeldJobs:
    """`take` asks all workers at once. Who does not answer holds what it held, until `drop`.

    `complete`: all workers answered the last time, and none was lost before. `answered_s`: when all
    of them last did.
    """

    def __init__(self, bus: Bus, roster: Roster, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._roster = roster
        self._tuning = tuning
        self._holdings: dict[str, Holding] = {}
        self._fallen: dict[str, tuple[str, float]] = {}
        self._lost = False
        self.complete = False
        self.answered_s = 0.0

    def __len__(self) -> int:
        """Jobs in work."""
        return sum(len(holding.requests) for holding in self._holdings.values())

    async def take(self) -> set[tuple[str, str]]:
        """Stage and request of every job that a worker holds."""
        asked_s, workers = time.monotonic(), self._roster.workers()
        for worker_id in self._holdings.keys() - workers:
            self._holdings.pop(worker_id)
            self._lost = True
        answers = await asyncio.gather(*(self._ask(worker_id) for worker_id in workers))
        if all(answers):
            self.answered_s = asked_s
        self.complete = all(answers) and not self._lost
        self._lost = False
        return self.held()

    def held(self) -> set[tuple[str, str]]:
        """The same as of the last time."""
        return {(one.stage, name) for one in self._holdings.values() for name in one.requests}

    def drop(self, worker_id: str) -> None:
        """It is dead."""
        self._holdings.pop(worker_id, None)
        self._lost = True
        if (stage := self._roster.stage_of(worker_id)) is not None:
            self._fallen[worker_id] = (stage, time.monotonic())

    def fallen(self, stage: str) -> set[str]:
        """Workers of a stage that died a short while ago."""
        oldest_s = time.monotonic() - self._tuning.fallen_s
        self._fallen = {w: fell for w, fell in self._fallen.items() if fell[1] > oldest_s}
        return {worker_id for worker_id, (of, _) in self._fallen.items() if of == stage}

    async def _ask(self, worker_id: str) -> bool:
        try:
            answer = await self._bus.link.request(
                subjects.ping(worker_id), ASKED, self._tuning.answers_s
            )
            self._holdings[worker_id] = Holding.decode(answer)
        except (BusUnavailable, MalformedMessage):
            return False  # late, gone, or of a version that does not say
        return True


async def holds(bus: Bus, lease: Lease, timeout_s: float) -> bool | None:
    """Whether the worker that the lease names says that it has the job; None if it does not say.

    A worker that is gone has nothing.
    """
    try:
        answer = await bus.link.request(subjects.ping(lease.worker_id), ASKED, timeout_s)
        return lease.request_id in Holding.decode(answer).requests
    except NoResponders:
        return False
    except (BusUnavailable, MalformedMessage):
        return None


log_ = structlog.get_logger(__name__)


class StaleLeases:
    """`check` again and again, while this reaper leads."""

    def __init__(self, bus: Bus, held_jobs: HeldJobs, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._held_jobs = held_jobs
        self._tuning = tuning
        self._checked_s = 0.0
        self._expected = True

    def expect(self) -> None:
        """There may be some: the next `check` looks."""
        self._expected = True

    async def check(self) -> None:
        """Remove them, if it is time to look for them; raises BusUnavailable."""
        began_s = time.monotonic()
        if not self._expected and began_s - self._checked_s < self._tuning.leftovers_s:
            return
        self._expected = False
        try:
            await tidy(self._bus, await self._unheld())
        except BusUnavailable:
            self._expected = True
            raise
        self._checked_s = began_s

    async def _unheld(self) -> list[Lease]:
        """Leases of which no worker says that it has the job.

        Those of jobs that wait, or that a dead worker had, are among them; their jobs are queued.
        """
        held = self._held_jobs.held()
        leases = await all_leases(self._bus)
        return [lease for lease in leases if (lease.stage, lease.request_id) not in held]


async def tidy(bus: Bus, leases: Sequence[Lease]) -> None:
    """Remove those of jobs that have left their queue; raises BusUnavailable."""
    for name, stage in STAGES.items():
        of_stage = [lease for lease in leases if lease.stage == name]
        queued = await bus.queue.queued(stage, [lease.request_id for lease in of_stage])
        for lease in of_stage:
            if lease.request_id not in queued:
                log_.debug("lease.left", request_id=lease.request_id, stage=name)
                await forget(bus, lease)
