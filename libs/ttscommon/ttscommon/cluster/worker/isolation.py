"""Finds out which request crashes its workers, at no cost to others, and ends it in time.

A crash of the process takes every stream of the worker with it, and the next worker's with it as
well if the request is handed on. What a lease knows of deaths decides: the request is tried, one
suspect at a time in each worker, then ended.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum, auto

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Job, grew
from ttscommon.cluster.leases import HeldLease
from ttscommon.cluster.worker.tuning import IsolationTuning
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import Stage

log_ = structlog.get_logger(__name__)


class Ruling(Enum):
    """What is to become of a job."""

    FREE = auto()
    TRIAL = auto()
    ELSEWHERE = auto()
    CANCELLED = auto()
    CRASHES = auto()


class Isolation:
    """One worker's. Suspects wait for each other, and nothing else waits for them."""

    def __init__(self, bus: Bus, stage: Stage, tuning: IsolationTuning) -> None:
        self._bus = bus
        self._stage = stage
        self._tuning = tuning
        self._running: set[Job] = set()
        self._changed = asyncio.Event()
        self._tried: Job | None = None

    async def judge(self, job: Job, held: HeldLease) -> Ruling:
        """Whether `job` may run here; a suspect waits for its turn, `turn_s` at most.

        `over` must follow. Raises Fenced.
        """
        lease, tuning = held.lease, self._tuning
        if tuning.convicts(lease):
            return Ruling.CRASHES
        if lease.blamed:
            job.on_rest = lambda resting: self._note(held, waiting=resting)
        suspect = tuning.suspects(lease)
        if suspect and self._busy and lease.bounces < tuning.bounces:
            return Ruling.ELSEWHERE
        if suspect and not await self._turn(job, held):
            return Ruling.CANCELLED
        self._running.add(job)
        return Ruling.TRIAL if suspect else Ruling.FREE

    async def until_proven(self, job: Job) -> None:
        """Let the next suspect begin once the log of `job` has grown, or after `trial_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._tuning.trial_s):
                await self._proof(job)
        self._free(job)

    def over(self, job: Job) -> None:
        """`job` does not run here any more."""
        self._running.discard(job)
        self._free(job)

    @property
    def _busy(self) -> bool:
        return any(not job.parked for job in self._running)

    async def _proof(self, job: Job) -> None:
        while self._tried is job:
            if await grew(self._bus, self._stage.writes, job.request_id, job.epoch):
                return
            await asyncio.sleep(self._tuning.look_s)

    async def _turn(self, job: Job, held: HeldLease) -> bool:
        """False if the job is cancelled meanwhile. A death in this time is not the job's."""
        log_.warning("job.isolated", request_id=job.request_id, stage=self._stage.name)
        if self._tried is not None:
            await self._note(held, waiting=True)
            await self._wait_for_turn(job)
            await self._note(held, waiting=False)
        self._tried = self._tried or job
        return not job.cancelled.is_set()

    async def _wait_for_turn(self, job: Job) -> None:
        cancelled = asyncio.create_task(job.cancelled.wait())
        next_ = asyncio.create_task(self._be_next(job))
        try:
            await asyncio.wait(
                {cancelled, next_},
                timeout=self._tuning.turn_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            await stop(cancelled, next_)

    async def _be_next(self, job: Job) -> None:
        while self._tried is not None:
            self._changed.clear()
            await self._changed.wait()
        self._tried = job

    async def _note(self, held: HeldLease, *, waiting: bool) -> None:
        """Computing waits for it, so not for long. Unwritten, one death may be judged wrongly."""
        if held.lease.waiting == waiting:
            return
        try:
            async with asyncio.timeout(self._tuning.note_s):
                await held.note(self._bus, waiting=waiting)
        except (TimeoutError, BusUnavailable):
            log_.debug("lease.unwritten", request_id=held.lease.request_id)

    def _free(self, job: Job) -> None:
        if self._tried is job:
            self._tried = None
            self._changed.set()
