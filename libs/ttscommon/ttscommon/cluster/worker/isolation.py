"""Keeps a request that crashes its workers away from other requests, and ends it in time.

A crash of the process takes every stream of the worker with it, and the next worker's with it as
well if the request is handed on. What a lease knows of deaths decides: the request runs alone, then
not at all.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Job
from ttscommon.cluster.leases import HeldLease
from ttscommon.cluster.progress import grew
from ttscommon.cluster.worker.claims import Claims
from ttscommon.cluster.worker.tuning import IsolationTuning
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import Stage

log_ = structlog.get_logger(__name__)


class Sentence(Enum):
    """What is to become of a job."""

    FREE = auto()
    ALONE = auto()
    ELSEWHERE = auto()
    CANCELLED = auto()
    POISON = auto()


class Isolation:
    """One worker's: at most one of its jobs runs alone."""

    def __init__(self, bus: Bus, stage: Stage, claims: Claims, tuning: IsolationTuning) -> None:
        self._bus = bus
        self._stage = stage
        self._claims = claims
        self._tuning = tuning
        self._running: set[Job] = set()
        self._changed = asyncio.Event()
        self._alone: Job | None = None

    async def judge(self, job: Job, held: HeldLease) -> Sentence:
        """Whether and how `job` may run here; waits for this worker to be empty if it must.

        `over` must follow. Raises Fenced.
        """
        lease, tuning = held.lease, self._tuning
        if lease.deaths >= tuning.poison:
            return Sentence.POISON
        suspect = lease.deaths >= tuning.alone
        if self._alone is not None or (suspect and self._busy and lease.bounces < tuning.bounces):
            return Sentence.ELSEWHERE
        if not suspect:
            self._running.add(job)
            return Sentence.FREE
        self._alone = job
        self._claims.hold()
        log_.warning("job.isolated", request_id=job.request_id, stage=self._stage.name)
        if self._busy and not await self._wait_to_be_alone(job, held):
            return Sentence.CANCELLED
        self._running.add(job)
        return Sentence.ALONE

    async def until_proven(self, job: Job) -> None:
        """Let this worker take other jobs again once the log of `job` has grown."""
        while self._alone is job:
            await asyncio.sleep(self._tuning.look_s)
            proven = await grew(self._bus, self._stage.writes, job.request_id, job.epoch)
            if proven and self._alone is job:
                self._free()

    def parked(self) -> None:
        """A job here waits, and computes nothing: it is in nobody's way."""
        self._changed.set()

    @property
    def _busy(self) -> bool:
        return any(not job.parked for job in self._running)

    def over(self, job: Job) -> None:
        """`job` does not run here any more."""
        self._running.discard(job)
        self._changed.set()
        if self._alone is job:
            self._free()

    async def _wait_to_be_alone(self, job: Job, held: HeldLease) -> bool:
        """False if the job is cancelled meanwhile. A death in this time is not the job's."""
        await self._note(held, waiting=True)
        cancelled = asyncio.create_task(job.cancelled.wait())
        empty = asyncio.create_task(self._empty())
        try:
            await asyncio.wait({cancelled, empty}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await stop(cancelled, empty)
        await self._note(held, waiting=False)
        return not job.cancelled.is_set()

    async def _empty(self) -> None:
        while self._busy:
            self._changed.clear()
            await self._changed.wait()

    async def _note(self, held: HeldLease, *, waiting: bool) -> None:
        try:
            await held.note(self._bus, waiting=waiting)
        except BusUnavailable:
            log_.debug("lease.unwritten", request_id=held.lease.request_id)

    def _free(self) -> None:
        self._alone = None
        self._claims.resume()
