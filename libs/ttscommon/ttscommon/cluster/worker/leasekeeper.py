"""Writes and removes the leases of one worker's jobs, and finds out which it has lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Job
from ttscommon.cluster.leases import HeldLease, leases_in
from ttscommon.cluster.worker.tuning import SuspensionTuning, WorkerTuning
from ttscommon.process.tasks import Chores
from ttscommon.wire.epochs import is_first
from ttscommon.wire.errors import BusUnavailable, Fenced
from ttscommon.wire.subjects import LEASES

log_ = structlog.get_logger(__name__)


class LeaseKeeper:
    """`active` are the worker's jobs; `supersede` ends one that is another worker's by now."""

    def __init__(
        self,
        bus: Bus,
        active: Mapping[str, Job],
        supersede: Callable[[Job], Awaitable[None]],
        chores: Chores,
        tuning: WorkerTuning,
    ) -> None:
        self._bus = bus
        self._active = active
        self._supersede = supersede
        self._chores = chores
        self._tuning = tuning
        self._unreleased: dict[str, HeldLease] = {}

    async def take(self, job: Job, *, known: bool) -> None:
        """Write the job's lease. A first sound does not wait for it; a successor does, for a while,
        unless the job's past is `known` already. Raises Fenced.
        """
        writing = self._chores.start(self.write(job))
        if not (known or is_first(job.epoch)):
            await asyncio.wait({writing}, timeout=self._tuning.lease_s)
            if job.superseded:
                raise Fenced("another worker holds the job", owner=job.epoch)

    async def write(self, job: Job) -> None:
        """Until it is written, its job is over, or another worker is found to have it."""
        held = job.lease
        while self._is_active(job):
            try:
                await held.take(self._bus)
            except Fenced as error:
                log_.warning("lease.lost", request_id=job.request_id, error=error.message)
                await self._supersede(job)
                return
            except BusUnavailable as error:
                log_.debug("lease.unwritten", request_id=job.request_id, error=error.message)
                await asyncio.sleep(self._tuning.lease_retry_s)
                continue
            if not self._is_active(job) and held.lease.held:
                await self.release(held)
            return

    async def release(self, held: HeldLease) -> None:
        """Remove a lease; if the broker cannot now, it is tried again at the next heartbeat."""
        self._unreleased[held.key] = held
        try:
            await held.release(self._bus)
        except BusUnavailable:
            log_.debug("lease.unreleased", request_id=held.lease.request_id)
            return
        self._unreleased.pop(held.key, None)

    async def renew(self) -> None:
        """Tell the broker that the jobs are still worked on, all at once."""
        await asyncio.gather(*(job.message.renew() for job in list(self._active.values())))
        for held in list(self._unreleased.values()):
            self._chores.start(self.release(held))

    async def watch(self) -> None:
        """Audit whenever this worker was away, and now and then; never ends."""
        with self._bus.link.reconnections() as returned:
            while True:
                await absence(returned, self._tuning.suspension)
                await self.audit()

    async def audit(self) -> None:
        """Look in one read whether the leases are still there; let go of what others have."""
        jobs = {job.lease.key: job for job in list(self._active.values()) if job.lease.written}
        try:
            found = leases_in(await self._bus.kv.latest(LEASES, *jobs)) if jobs else {}
        except BusUnavailable as error:
            log_.debug("leases.unseen", error=error.message)
            return
        lost = [job for key, job in jobs.items() if key not in found or not found[key].held]
        await asyncio.gather(*(self.write(job) for job in lost))

    def _is_active(self, job: Job) -> bool:
        return self._active.get(job.request_id) is job


async def absence(returned: asyncio.Event, tuning: SuspensionTuning) -> None:
    """Until this process is back from an absence, or none was seen for `audit_s`. returned: see
    Link.reconnections.
    """
    until_s = time.monotonic() + tuning.audit_s
    while not returned.is_set() and time.monotonic() < until_s:
        asleep_s = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(tuning.tick_s):
                await returned.wait()
        if time.monotonic() - asleep_s > tuning.tick_s + tuning.late_s:
            break
    returned.clear()
