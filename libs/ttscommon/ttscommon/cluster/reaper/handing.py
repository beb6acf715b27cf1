"""Hands one job of a dead worker on: by the queue, or straight to a live worker.

The queue's consumer has a leader that may have died with the worker; a new one takes 4 to 9 s. A
worker that is asked directly takes the job at once, and the log fences the earlier holder.

Of a question that was not answered in time it is not known whether it was heeded. So the one that
was asked is asked again what became of the job, before another gets it as well.
"""

from __future__ import annotations

import asyncio
import random
import time

import structlog

from ttscommon.bus import Bus, QueuedJob
from ttscommon.cluster.leases import (
    HeldLease,
    JobLeases,
    Lease,
    figures_of,
    forget,
    leases_of_worker,
)
from ttscommon.cluster.reaper.failure_detector import Roster
from ttscommon.cluster.reaper.held_jobs import holds
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import TAKEN, HandOver, handed_over, message_of
from ttscommon.wire.errors import BusUnavailable, Fenced, NoResponders
from ttscommon.wire.subjects import STAGES

log_ = structlog.get_logger(__name__)


class HandingOn:
    """`run` for one job at a time; several jobs at once are several calls."""

    def __init__(self, bus: Bus, roster: Roster, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._roster = roster
        self._tuning = tuning
        self._under_way: set[str] = set()
        self._given: dict[str, tuple[Lease, float]] = {}
        # The last epoch with which a worker may have taken a job, without saying so.
        self._offered: dict[str, int] = {}

    async def held_by(self, worker_id: str) -> list[Lease]:
        """A worker's leases, also of jobs that it was handed just now; raises BusUnavailable."""
        held = {lease.all_of_job: lease for lease in await leases_of_worker(self._bus, worker_id)}
        for job, (lease, _) in self._recently_given().items():
            if lease.worker_id == worker_id and (job not in held or held[job].epoch < lease.epoch):
                held[job] = lease
        return list(held.values())

    async def run(self, lease: Lease, after: Lease) -> bool:
        """Until the job is handed on, or another worker is found to have it; False for that.

        `after`: what its next holder is told of it; see deaths.py.
        """
        job = lease.all_of_job
        if job in self._under_way:
            return False
        self._under_way.add(job)
        try:
            return await self._run(lease, after)
        finally:
            self._under_way.discard(job)
            self._offered.pop(job, None)

    async def _run(self, lease: Lease, after: Lease) -> bool:
        holder, blamed = lease.worker_id, lease.blamed or after.blamed
        lease = after
        ways = [self._by_queue, self._directly]
        if blamed and holder:
            stored = await self._store(lease, holder)
            if stored is None:
                return False
            if not stored:
                ways.reverse()  # a worker that is asked is told of the deaths
        pause_s = self._tuning.first_pause_s
        while True:
            for way in ways:
                if await way(lease, holder):
                    return True
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, self._tuning.longest_pause_s)
            if not await self._is_last(lease):
                return False

    async def _store(self, lease: Lease, holder: str) -> bool | None:
        """Write what is known of the job for its next holder; None if there is one already.

        False if it could not be written: a bucket without a leader must not hold the job up.
        """
        try:
            async with asyncio.timeout(self._tuning.tail_s):
                await HeldLease(lease, holder=holder).take(self._bus, figures=False)
        except Fenced:
            return None
        except (TimeoutError, BusUnavailable):
            log_.info("deaths.unwritten", request_id=lease.request_id, deaths=lease.deaths)
            return False
        return True

    async def _is_last(self, lease: Lease) -> bool:
        """Whether the job goes on and no later holder is known: it would be torn from it."""
        try:
            found = await JobLeases.read(self._bus, lease.stage, lease.request_id)
        except BusUnavailable:
            return True
        return found.newest is not None and found.newest.epoch <= lease.epoch

    async def _by_queue(self, lease: Lease, holder: str) -> bool:
        try:
            await self._bus.queue.hand_on(lease.receipt, self._tuning.nak_s)
        except NoResponders:
            return False  # the queue has no leader
        except BusUnavailable:
            return await self._has_leader(lease)
        return True

    async def _has_leader(self, lease: Lease) -> bool:
        """Whether the queue answers, though late: then it has what it was told before.

        Were the job handed over as well, two workers would have it. What the queue lost all the
        same is found as an orphan.
        """
        stage = STAGES[lease.stage]
        try:
            async with asyncio.timeout(self._tuning.nak_s):
                job = await self._bus.queue.find(stage, lease.request_id)
                if job is not None:
                    await self._bus.queue.backlog(stage, job.request.model)
        except (TimeoutError, BusUnavailable):
            return False
        return self._bus.connected

    async def _directly(self, lease: Lease, holder: str) -> bool:
        """Ask live workers, the idlest first, whether one takes the job."""
        try:
            job = await self._bus.queue.find(STAGES[lease.stage], lease.request_id)
            if job is None or job.sequence != message_of(lease.epoch):
                await forget(self._bus, lease)
                return False
            for worker_id in self._workers(lease.stage, job.request.model, holder):
                offer = self._offer(lease, job)
                if await self._taken(worker_id, offer, lease):
                    log_.info("job.handed_over", request_id=lease.request_id, worker=worker_id)
                    self._note_given(Lease.handed(offer, lease.stage).held_by(worker_id))
                    return True
        except BusUnavailable as error:
            log_.debug("handover.impossible", request_id=lease.request_id, error=error.message)
        return False

    def _offer(self, lease: Lease, job: QueuedJob) -> HandOver:
        """With an epoch after all that a worker may have taken already."""
        epoch = handed_over(self._offered.get(lease.all_of_job, lease.epoch))
        told = figures_of(lease)
        request = job.request.again_now()
        return HandOver(request, epoch, lease.receipt, job.sequence, trace=job.trace, **told)

    def _note_given(self, lease: Lease) -> None:
        self._given = {**self._recently_given(), lease.all_of_job: (lease, time.monotonic())}

    def _recently_given(self) -> dict[str, tuple[Lease, float]]:
        """Jobs that were handed over, whose leases may not have been written yet."""
        oldest_s = time.monotonic() - self._tuning.given_s
        return {job: given for job, given in self._given.items() if given[1] > oldest_s}

    def _workers(self, stage: str, model: str, holder: str) -> list[str]:
        """Who has room for a job, the idlest first; not its dead holder."""
        fit = [
            replica
            for replica in self._roster.replicas
            if replica.stage == stage
            and replica.free > 0
            and not replica.draining
            and any(served.name == model for served in replica.models)
            and replica.worker_id != holder
        ]
        random.shuffle(fit)
        return [r.worker_id for r in sorted(fit, key=lambda r: -r.free / r.slots)]

    async def _taken(self, worker_id: str, offer: HandOver, lease: Lease) -> bool:
        try:
            answer = await self._bus.link.request(
                subjects.handover(worker_id), offer.encode(), self._tuning.handover_s
            )
        except NoResponders:
            return False
        except BusUnavailable:
            return await self._has_taken(worker_id, offer, lease)
        return answer == TAKEN

    async def _has_taken(self, worker_id: str, offer: HandOver, lease: Lease) -> bool:
        """Ask a worker that did not answer in time what it holds.

        If it does not hold the job now it may have taken it all the same: another is offered the
        job with a later epoch, which fences this one.
        """
        self._offered[lease.all_of_job] = offer.epoch
        return bool(await holds(self._bus, lease.held_by(worker_id), self._tuning.handover_s))
