"""Finds orphaned jobs, which no worker holds, and requeues them.

The reaper hands on the jobs of dead workers that wrote a lease. A worker that dies or stops
between being given a job and writing its lease leaves one that nobody knows of; the broker would
bring it back after `ack_wait`, long after its listener has left.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.errors import AntiphonError
from ttscommon.messages import End, SpeechRequest
from ttscommon.subjects import TALKER, VOCODER, Stage

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OrphanTuning:
    """`queue_age_s`: how old an answer about a queue may be. `checks`: how many in a row must find
    a job abandoned; one may fall between its claim and its lease. `attempts`: how often at most.
    """

    queue_age_s: float = 0.25
    checks: int = 2
    attempts: int = 5


class Queues:
    """Whether jobs wait for a worker; one answer serves every request of a gateway."""

    def __init__(self, bus: Bus, tuning: OrphanTuning = OrphanTuning()) -> None:
        self.tuning = tuning
        self._bus = bus
        self._seen: dict[str, tuple[float, int]] = {}

    async def waiting(self, stage: Stage, model: str) -> int:
        """Jobs not yet given to anybody; raises BusUnavailable."""
        durable = stage.durable(model)
        asked_s, count = self._seen.get(durable, (-1e9, 0))
        if time.monotonic() - asked_s < self.tuning.queue_age_s:
            return count
        count = await self._bus.queue.waiting(stage, model)
        self._seen[durable] = (time.monotonic(), count)
        return count


class OrphanCheck:
    """Watches over one silent request. Call `check` now and then while nothing comes.

    The jobs themselves say what to requeue, so any gateway can do it for any request.
    """

    def __init__(self, bus: Bus, queues: Queues, request_id: str) -> None:
        self._bus = bus
        self._queues = queues
        self._request_id = request_id
        self._signs: Counter[str] = Counter()

    async def check(self) -> None:
        """Requeue a stage's job after it was found orphaned several times in a row."""
        tuning = self._queues.tuning
        try:
            for stage in (TALKER, VOCODER):
                job = await self._orphaned(stage)
                if job is None:
                    self._signs[stage.name] = 0
                    continue
                self._signs[stage.name] += 1
                if self._signs[stage.name] >= tuning.checks and job[1] < tuning.attempts:
                    self._signs.clear()
                    await self._requeue(stage, *job)
        except AntiphonError as error:
            log_.debug("orphans.unchecked", request_id=self._request_id, error=error.message)

    async def _orphaned(self, stage: Stage) -> tuple[SpeechRequest, int] | None:
        """The stage's job and its attempt, if it is neither waiting nor leased nor done."""
        leased = await self._bus.kv.get(subjects.LEASES, f"{stage.name}.{self._request_id}")
        if leased is not None:
            return None
        job = await self._bus.queue.submitted(stage, self._request_id)
        if job is None or await self._queues.waiting(stage, job[0].model):
            return None
        tail = await self._bus.logs.last(stage.writes, self._request_id, 1.0)
        return None if tail is not None and isinstance(tail.record, End) else job

    async def _requeue(self, stage: Stage, request: SpeechRequest, attempts: int) -> None:
        log_.warning(
            "orphans.requeued",
            request_id=self._request_id,
            stage=stage.name,
            attempt=attempts + 1,
        )
        await self._bus.queue.submit(stage, request, attempt=attempts + 1)
