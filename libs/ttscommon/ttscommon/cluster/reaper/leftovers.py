"""Leases of jobs that are done, which no worker removes any more.

A dead worker's leases are read once, when it dies. A lease that is written or stored after that
stays: a broker that is killed forgets its last removals, and a worker's last words may be late.
So all leases are looked at again when the broker is back, and now and then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease, all_leases, forget
from ttscommon.cluster.reaper.held_jobs import HeldJobs
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import STAGES

# Jobs that one read may ask for.
_AT_ONCE: Final = 1000

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
        for start in range(0, len(of_stage), _AT_ONCE):
            some = of_stage[start : start + _AT_ONCE]
            queued = await bus.queue.queued(stage, [lease.request_id for lease in some])
            for lease in some:
                if lease.request_id not in queued:
                    log_.debug("lease.left", request_id=lease.request_id, stage=name)
                    await forget(bus, lease)
