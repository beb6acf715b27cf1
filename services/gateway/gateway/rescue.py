"""Finds requests that nobody works on, and queues them again.

The reaper hands on the jobs of dead workers that wrote a lease. A worker that dies or stops
between being given a job and writing its lease leaves one that nobody knows of; the broker would
bring it back after `ack_wait`, long after its listener has left.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.bus.logstore import Unreachable
from ttscommon.errors import AntiphonError, BusUnavailable
from ttscommon.messages import End, SpeechRequest
from ttscommon.subjects import CODES, TALKER, VOCODER, Stage

_QUEUE_LOOK_S: Final = 0.4
_CONVINCED: Final = 2
_MOST_ATTEMPTS: Final = 5

log_ = structlog.get_logger(__name__)


class Queues:
    """Whether jobs wait for a worker; one look serves every request of a gateway."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._seen: dict[str, tuple[float, int]] = {}

    async def waiting(self, stage: Stage, model: str) -> int:
        """Jobs not yet given to anybody; raises BusUnavailable."""
        durable = stage.durable(model)
        looked_s, count = self._seen.get(durable, (-1e9, 0))
        if time.monotonic() - looked_s < _QUEUE_LOOK_S:
            return count
        try:
            info = await self._bus.jetstream.consumer_info(subjects.JOBS, durable)
        except Unreachable as error:
            raise BusUnavailable("the queue cannot be seen") from error
        count = info.num_pending or 0
        self._seen[durable] = (time.monotonic(), count)
        return count


class Rescue:
    """Looks after one silent request. Call `look` now and then while nothing comes."""

    def __init__(self, bus: Bus, queues: Queues, request: SpeechRequest) -> None:
        self._bus = bus
        self._queues = queues
        self._request = request
        self._signs: Counter[str] = Counter()
        self._attempts = 0

    async def look(self) -> None:
        """Queue a stage's job again after it was found abandoned twice running."""
        try:
            for stage in (TALKER, VOCODER):
                if not await self._abandoned(stage):
                    self._signs[stage.name] = 0
                    continue
                self._signs[stage.name] += 1
                if self._signs[stage.name] >= _CONVINCED and self._attempts < _MOST_ATTEMPTS:
                    self._signs.clear()
                    await self._queue_again(stage)
        except AntiphonError as error:
            log_.debug("rescue.blind", request_id=self._request.request_id, error=error.message)

    async def _abandoned(self, stage: Stage) -> bool:
        """Neither waiting nor leased nor ended; a vocoder's job exists once a talker began."""
        request_id = self._request.request_id
        if await self._queues.waiting(stage, self._request.model):
            return False
        if await self._bus.kv_get(subjects.LEASES, f"{stage.name}.{request_id}") is not None:
            return False
        if stage is VOCODER and await self._bus.logs.last(CODES, request_id, 1.0) is None:
            return False
        tail = await self._bus.logs.last(stage.writes, request_id, 1.0)
        return tail is None or not isinstance(tail.record, End)

    async def _queue_again(self, stage: Stage) -> None:
        self._attempts += 1
        log_.warning(
            "rescue.queued_again",
            request_id=self._request.request_id,
            stage=stage.name,
            attempt=self._attempts,
        )
        await self._bus.submit(stage, self._request, attempt=self._attempts)
