"""Ends jobs that have no listener and that no client can resume."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Job
from ttscommon.cluster.worker.tuning import WorkerTuning
from ttscommon.wire.messages import Cancel
from ttscommon.wire.subjects import Stage

log_ = structlog.get_logger(__name__)


class Unheard:
    """One worker's. Without a broker no gateway can say that it hears a job, and what gateways said
    while this process was paused has yet to be read: such time does not count.
    """

    def __init__(
        self, bus: Bus, stage: Stage, active: Mapping[str, Job], tuning: WorkerTuning
    ) -> None:
        self._bus = bus
        self._stage = stage
        self._active = active
        self._tuning = tuning

    async def watch(self) -> None:
        """Look again and again; never ends."""
        tuning = self._tuning
        while True:
            asleep_s = time.monotonic()
            await asyncio.sleep(tuning.listeners_s)
            now_s = time.monotonic()
            paused = now_s - asleep_s > tuning.listeners_s + tuning.absence.late_s
            self._look(now_s, deaf=paused or not self._bus.connected)

    def _look(self, now_s: float, *, deaf: bool) -> None:
        for job in list(self._active.values()):
            if deaf:
                job.listened_s = now_s
            elif job.is_unheard(now_s) and not job.cancelled.is_set():
                log_.info("job.unheard", request_id=job.request_id, stage=self._stage.name)
                job.control(Cancel(job.request_id, "no listener"))
