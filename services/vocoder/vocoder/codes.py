"""A request's codes, as far as they come in time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ttscommon.bus import Bus, LogReader
from ttscommon.cluster.worker import Job
from ttscommon.wire import subjects
from ttscommon.wire.messages import Chunk, End


@dataclass(frozen=True)
class Codes:
    """Reads the codes of a job, which rests meanwhile. None comes for `timeout_s`: none will."""

    bus: Bus
    job: Job
    timeout_s: float

    def read(self, frame: int = 0) -> LogReader:
        """From a frame on; use as an async context manager."""
        return self.bus.reader(subjects.CODES, self.job.request_id, frame)

    async def next(self, codes: LogReader, timeout_s: float | None = None) -> Chunk | End | None:
        """None if nothing comes in time."""
        if (record := codes.at_hand()) is not None:
            return record
        try:
            async with asyncio.timeout(timeout_s or self.timeout_s):
                return await self.job.resting(anext(codes))
        except TimeoutError:
            return None
