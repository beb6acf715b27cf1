"""Hands one job of a dead worker on: by the queue, or straight to a live worker.

The queue's consumer has a leader that may have died with the worker; a new one takes 4 to 9 s. A
worker that is asked directly takes the job at once, and the log fences whoever had it.
"""

from __future__ import annotations

import asyncio
import random
import time

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.epochs import handed_over, message_of
from ttscommon.errors import BusUnavailable, Fenced, MalformedMessage
from ttscommon.handover import TAKEN, HandOver
from ttscommon.leases import HeldLease, Lease
from ttscommon.progress import grew
from ttscommon.reaper.tuning import ReaperTuning
from ttscommon.reaper.view import LeaseView, Seen
from ttscommon.replicas import Replica
from ttscommon.subjects import REPLICAS, STAGES

log_ = structlog.get_logger(__name__)


class HandingOn:
    """`run` for one job at a time; several jobs at once are several calls."""

    def __init__(self, bus: Bus, view: LeaseView, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._view = view
        self._tuning = tuning
        self._under_way: set[str] = set()
        self._replicas: list[Replica] = []
        self._replicas_s = 0.0

    async def run(self, seen: Seen, *, died: bool = True) -> bool:
        """Until the job is handed on, or another worker is found to have it; False for that.

        `died`: its holder did, abruptly, which counts against the job unless its log grew.
        """
        key = seen.lease.key
        if key in self._under_way:
            return False
        self._under_way.add(key)
        try:
            return await self._run(seen, died=died)
        finally:
            self._under_way.discard(key)

    async def _run(self, seen: Seen, *, died: bool) -> bool:
        lease = seen.lease
        if died and lease.held and not lease.waiting:
            lease = lease.released(deaths=await self._deaths(lease))
        else:
            lease = lease.released()
        ways = [self._by_queue, self._directly]
        if lease.deaths and died:
            stored = await self._store(lease, seen.lease.worker_id)
            if stored is None:
                return False
            if not stored:
                ways.reverse()  # a worker that is asked is told of the deaths
        pause_s = self._tuning.first_pause_s
        while self._is_last(lease):
            for way in ways:
                if await way(lease):
                    return True
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, self._tuning.longest_pause_s)
        return False

    async def _deaths(self, lease: Lease) -> int:
        """Deaths in a row that the job has seen without its log growing, this one included.

        As many as before if the log does not say in time.
        """
        stage = STAGES[lease.stage]
        try:
            async with asyncio.timeout(self._tuning.tail_s):
                grown = await grew(self._bus, stage.writes, lease.request_id, lease.epoch)
        except TimeoutError:
            grown = None
        if grown is None:
            return lease.deaths
        return 0 if grown else lease.deaths + 1

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

    def _is_last(self, lease: Lease) -> bool:
        """Whether no later holder is known: its job would be torn from it."""
        known = self._view[lease.key]
        return known is not None and known.lease.epoch <= lease.epoch

    async def _by_queue(self, lease: Lease) -> bool:
        try:
            await self._bus.queue.hand_on(lease.receipt, self._tuning.nak_s)
        except BusUnavailable:
            return False
        if self._is_last(lease):
            self._view.put(lease)
        return True

    async def _directly(self, lease: Lease) -> bool:
        """Ask live workers, the idlest first, whether one takes the job."""
        try:
            job = await self._bus.queue.find(STAGES[lease.stage], lease.request_id)
            if job is None or job.sequence != message_of(lease.epoch):
                await self._forget(lease)
                return False
            offer = HandOver(
                job.request.again_now(),
                handed_over(lease.epoch),
                lease.receipt,
                job.sequence,
                lease.deaths,
                lease.bounces,
                lease.failures,
                job.trace,
            )
            for worker_id in await self._workers(lease, job.request.model):
                if await self._taken(worker_id, offer):
                    log_.info("job.handed_over", request_id=lease.request_id, worker=worker_id)
                    self._view.put(offer.lease(lease.stage).held_by(worker_id))
                    return True
        except BusUnavailable as error:
            log_.debug("handover.impossible", request_id=lease.request_id, error=error.message)
        return False

    async def _forget(self, lease: Lease) -> None:
        """The job is done, or is another message by now: its lease was all that was left."""
        await HeldLease(lease).release(self._bus)
        self._view.drop(lease.key)

    async def _workers(self, lease: Lease, model: str) -> list[str]:
        fit = [
            replica
            for replica in await self._live_replicas()
            if replica.stage == lease.stage
            and replica.free > 0
            and not replica.draining
            and any(served.name == model for served in replica.models)
            and not self._is_dead(replica.worker_id, lease)
        ]
        random.shuffle(fit)
        return [r.worker_id for r in sorted(fit, key=lambda r: -r.free / r.slots)]

    async def _live_replicas(self) -> list[Replica]:
        now = time.monotonic()
        if now - self._replicas_s > self._tuning.replicas_s:
            reports = await self._bus.kv.all(REPLICAS)
            self._replicas = [one for value in reports.values() if (one := _parse(value))]
            self._replicas_s = now
        return self._replicas

    async def refresh(self) -> None:
        """Read who reports; raises BusUnavailable."""
        await self._live_replicas()

    def workers(self) -> set[str]:
        """Everyone who reported at the last refresh."""
        return {replica.worker_id for replica in self._replicas}

    def _is_dead(self, worker_id: str, lease: Lease) -> bool:
        held = self._view[lease.key]
        return held is not None and held.lease.worker_id == worker_id

    async def _taken(self, worker_id: str, offer: HandOver) -> bool:
        try:
            answer = await self._bus.link.request(
                subjects.handover(worker_id), offer.encode(), self._tuning.handover_s
            )
        except BusUnavailable:
            return False
        return answer == TAKEN


def _parse(value: bytes) -> Replica | None:
    try:
        return Replica.decode(value)
    except MalformedMessage:
        return None
