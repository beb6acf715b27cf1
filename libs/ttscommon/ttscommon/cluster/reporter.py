"""Keeps the cluster informed of a worker: its Replica in the REPLICAS bucket, again and again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import Stage

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReporterTuning:
    """A worker's reports."""

    report_s: float = 0.4
    """Between two: gateways know within a second of a machine that became slower; much less than
    the bucket's time to live.
    """
    same_s: float = 1.6
    """Between two that say the same, and how often the queue is looked at while this worker has
    room: workers with room take what waits.
    """
    again_s: float = 0.2
    """Until a first one that failed is tried again."""


class Reporter:
    """Writes what `report` says. `queued`: jobs of `models` not taken at the last look."""

    def __init__(
        self,
        bus: Bus,
        stage: Stage,
        models: Sequence[str],
        report: Callable[[], Replica],
        hangs: Callable[[], bool],
    ) -> None:
        self._tuning = ReporterTuning()
        self.queued = 0
        self._bus = bus
        self._stage = stage
        self._key = f"{stage.name}.{bus.worker_id}"
        self._models = models
        self._report = report
        self._hangs = hangs
        self._told = b""
        self._told_s = self._looked_s = -math.inf

    async def enlist(self) -> None:
        """Have the cluster know of this worker, however long the broker takes."""
        while True:
            if await self._tell():
                return
            await asyncio.sleep(self._tuning.again_s)

    async def run(self) -> None:
        """Report until cancelled, but for a worker whose engine hangs: gateways believe a report
        rather than the reaper.
        """
        while True:
            await asyncio.sleep(self._tuning.report_s)
            if not self._hangs():
                await self._tell()

    async def withdraw(self) -> None:
        """Have the cluster forget this worker; if the broker cannot hear, the report expires."""
        try:
            await self._bus.kv.delete(subjects.REPLICAS, self._key)
        except BusUnavailable:
            log_.debug("report.left_to_expire")

    async def _tell(self) -> bool:
        """Write a report, if there is news; False if the broker did not take it."""
        now, report = time.monotonic(), self._report()
        if self.queued or not report.free or now - self._looked_s >= self._tuning.same_s:
            await self._look(now)
            report = self._report()
        value = report.encode()
        if value == self._told and now - self._told_s < self._tuning.same_s:
            return True
        try:
            await self._bus.kv.put(subjects.REPLICAS, self._key, value)
        except BusUnavailable as error:
            log_.debug("report.unwritten", error=error.message)
            return False
        self._told, self._told_s = value, now
        return True

    async def _look(self, now: float) -> None:
        try:
            self.queued, self._looked_s = await self._waiting(), now
        except BusUnavailable as error:
            log_.debug("queue.unseen", error=error.message)

    async def _waiting(self) -> int:
        """Jobs of ours that no worker has taken; raises BusUnavailable."""
        queue = self._bus.queue
        return sum([await queue.waiting(self._stage, model) for model in self._models])
