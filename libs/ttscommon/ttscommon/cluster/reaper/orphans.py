"""Finds jobs that were given to a worker and that no worker holds, and queues them again.

A worker that dies between its claim and its lease leaves one, and so does a worker that could not
prove that a job was still its own when it gave it back. The queue's own remedy, `ack_wait`, comes
long after the listener has left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from ttscommon.bus import Backlog, Bus, QueuedJob
from ttscommon.cluster.jobs import grew
from ttscommon.cluster.leases import HeldLease, JobLeases, Lease
from ttscommon.cluster.reaper.handing import HandingOn
from ttscommon.cluster.reaper.held_jobs import HeldJobs, holds
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import epoch_of, message_of
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Fenced
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import STAGES, Stage

# Jobs that are looked at together: after the loss of many workers each takes `holder_s`.
_AT_ONCE: Final = 64

log_ = structlog.get_logger(__name__)


@dataclass
class Sign:
    """A job that no worker held in `looks` looks, the first of which found `deliveries`."""

    deliveries: int
    looks: int = 0


class Orphans:
    """`check` again and again, while this reaper leads."""

    def __init__(
        self, bus: Bus, held_jobs: HeldJobs, handing: HandingOn, tuning: ReaperTuning
    ) -> None:
        self._bus = bus
        self._held_jobs = held_jobs
        self._handing = handing
        self._tuning = tuning
        self._signs: dict[tuple[str, int], Sign] = {}
        # Stage and model, by the stage's name and the request.
        self._jobs: dict[tuple[str, str], tuple[Stage, str]] = {}
        self._listed_s = float("-inf")

    async def check(self) -> None:
        """Compare the jobs with what workers hold; raises BusUnavailable."""
        suspects = await self._suspects()
        seen: set[tuple[str, int]] = set()
        for (stage, model), requests in suspects.items():
            backlog = await self._bus.queue.backlog(stage, model)
            if len(requests) > backlog.waiting:
                seen |= await self._check(stage, requests, backlog)
        for sign in self._signs.keys() - seen:
            del self._signs[sign]

    async def _suspects(self) -> dict[tuple[Stage, str], list[str]]:
        """Jobs that no worker says it holds, by stage and model.

        Thousands of jobs are not listed each time. A list will do for a while, if all workers
        answer, and what they do not hold of it any more has left its queue.
        """
        if time.monotonic() - self._listed_s < self._tuning.known_s:
            done = await self._unheld()
            if self._held_jobs.complete and not await self._any_queued(done):
                for job in done:
                    del self._jobs[job]
                return {}
        self._jobs = await self._list()
        self._listed_s = time.monotonic()
        suspects: dict[tuple[Stage, str], list[str]] = {}
        for job in await self._unheld():
            suspects.setdefault(self._jobs[job], []).append(job[1])
        return suspects

    async def _list(self) -> dict[tuple[str, str], tuple[Stage, str]]:
        stages = {stage.queue: stage for stage in STAGES.values()}
        return {
            (stages[queue].name, request_id): (stages[queue], model)
            for queue, model, request_id in await self._bus.queue.jobs()
            if queue in stages
        }

    async def _unheld(self) -> list[tuple[str, str]]:
        """Those of the known jobs that no worker holds; asked after the jobs were listed, so that
        a worker that has taken one says so.
        """
        held = await self._held_jobs.take()
        return [job for job in self._jobs if job not in held]

    async def _any_queued(self, jobs: Sequence[tuple[str, str]]) -> bool:
        """Whether any is still in its queue."""
        for name, stage in STAGES.items():
            requests = [request_id for of, request_id in jobs if of == name]
            if await self._bus.queue.queued(stage, requests):
                return True
        return False

    async def _check(
        self, stage: Stage, requests: Sequence[str], backlog: Backlog
    ) -> set[tuple[str, int]]:
        """Look at jobs without a holder; returns those that were given to a worker once."""
        seen: set[tuple[str, int]] = set()
        for start in range(0, len(requests), _AT_ONCE):
            some = requests[start : start + _AT_ONCE]
            looks = (self._look_at(stage, one, backlog, len(requests)) for one in some)
            seen.update(sign for sign in await asyncio.gather(*looks) if sign is not None)
        return seen

    async def _look_at(
        self, stage: Stage, request_id: str, backlog: Backlog, others: int
    ) -> tuple[str, int] | None:
        """None for a job that no worker was given. `others`: jobs that may be given before it."""
        job = await self._bus.queue.find(stage, request_id)
        if job is None or job.sequence > backlog.given:
            return None
        # Read before a worker is asked: a worker that takes the job meanwhile writes a newer one.
        known = (await JobLeases.read(self._bus, stage.name, request_id)).newest
        key = (f"{stage.name}.{request_id}", job.sequence)
        if await self._has_holder(stage, request_id):
            self._signs.pop(key, None)
            return key
        sign = self._signs.setdefault(key, Sign(backlog.deliveries))
        sign.looks += 1
        if sign.looks >= self._tuning.checks and not _may_wait(job, known, sign, backlog, others):
            del self._signs[key]
            await self._requeue(stage, job, known)
        return key

    async def _has_holder(self, stage: Stage, request_id: str) -> bool:
        """Ask the workers themselves: leases cannot be written while their bucket is electing."""
        try:
            await self._bus.link.request(
                subjects.holders(stage.name), request_id.encode(), self._tuning.holder_s
            )
        except BusUnavailable:
            return not self._bus.connected
        return True

    async def _was_taken(self, stage: Stage, request_id: str, known: Lease | None) -> bool:
        """Whether a worker has the job since its lease was read as `known`.

        Holders alone answer `_has_holder`, so that no answer is a time-out, in which a worker may
        take the job. The worker that the lease names says yes or no; one that is silent is left to
        the detector.
        """
        newest = (await JobLeases.read(self._bus, stage.name, request_id)).newest
        if newest is None:
            return False
        if known is None or newest.epoch > known.epoch:
            return True
        return newest.held and await holds(self._bus, newest, self._tuning.holder_s) is not False

    async def _requeue(self, stage: Stage, job: QueuedJob, known: Lease | None) -> None:
        request_id = job.request.request_id
        if await self._was_taken(stage, request_id, known):
            return
        if _receipt_of(job, known):
            assert known is not None
            # Given back, and lost on the way: its receipt is known, so the job stays the same.
            await self._handing.run(known, known.released())
            return
        try:
            tail = await self._bus.log(stage.writes, request_id).last(self._tuning.tail_s)
            ended = tail is not None and isinstance(tail.record, End)
            if ended and not job.request.remake:
                return
            await self._note_death(stage, job, known)
            if await self._bus.queue.requeue(stage, job):
                log_.warning("orphans.requeued", request_id=request_id, stage=stage.name)
        except BusUnavailable:
            raise
        except AntiphonError as error:
            log_.warning("orphans.left", request_id=request_id, error=error.message)

    async def _note_death(self, stage: Stage, job: QueuedJob, known: Lease | None) -> None:
        """If a worker died that may have been given the job before its lease, tell the next holder.

        A request that crashes its worker at once would else be given to one after another.
        """
        request_id, epoch = job.request.request_id, epoch_of(job.sequence, 1)
        counted = known.dead if known is not None else ()
        dead = self._held_jobs.fallen(stage.name) - set(counted)
        if not dead or await grew(self._bus, stage.writes, request_id, epoch):
            return
        lease = Lease(dead.pop(), stage.name, request_id, epoch, receipt="")
        if known is not None:
            lease = lease.with_figures_of(known)
        try:
            after = lease.after_death("deaths")
            await HeldLease(after).take(self._bus, figures=False)
        except Fenced as error:
            log_.debug("orphans.taken", request_id=request_id, error=error.message)


def _receipt_of(job: QueuedJob, known: Lease | None) -> str:
    """Where the broker takes word of the job; empty if no lease says so."""
    if known is None or message_of(known.epoch) != job.sequence:
        return ""
    return known.receipt


def _may_wait(
    job: QueuedJob, known: Lease | None, sign: Sign, backlog: Backlog, others: int
) -> bool:
    """Whether the job may be back in its queue, for which it would be given back once more.

    A job that was given back counts as given. It is the first that a worker gets that has room, so
    it waits no longer once a worker waits, or as many jobs were given as may have been before it.
    """
    served = backlog.pulls > 0 or backlog.deliveries - sign.deliveries >= others
    return bool(_receipt_of(job, known)) and not served
