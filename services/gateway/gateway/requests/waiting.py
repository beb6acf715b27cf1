"""For the next record of a request: no longer than it may take, and not at its writer's expense."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gateway.admission import Grant
from gateway.requests.record_timeouts import RecordTimeouts, exhausted
from gateway.requests.services import RequestServices
from gateway.requests.sources import SpeechSource
from ttscommon.bus import AudioReader
from ttscommon.wire.errors import AntiphonError, StoreLost


class Waiting:
    """Of one request, accepted at `last_s`, which is then when its last record came. on_stages: it
    has nothing to do until they send something.
    """

    def __init__(
        self, services: RequestServices, source: SpeechSource, grant: Grant, accepted_s: float
    ) -> None:
        self.last_s = accepted_s
        self._services = services
        self._source = source
        self._grant = grant
        self._first = True
        self._told = ""
        self.on_stages = False

    def came(self) -> None:
        """A record came."""
        self.last_s = time.monotonic()
        self._first = False
        self._told = ""

    async def next(
        self,
        reader: AudioReader,
        duty: asyncio.Task[Any] | None,
        tell: Callable[[AntiphonError], None],
    ) -> object:
        """Raises what a request is told that waited too long, and what its `duty` failed with.

        `tell`: called with what it waits for where workers are missing, whenever that changes.
        """
        if (record := reader.at_hand()) is not None:
            return record
        while True:
            left_s = await self._left_s()
            try:
                # While text is still coming the limit moves, so look again now and then.
                async with asyncio.timeout(min(left_s, self._services.tuning.look_s)):
                    self.on_stages = True
                    return await anext(reader)
            except TimeoutError:
                if duty is not None and duty.done():
                    duty.result()
                if (lacking := self._lacks()) is not None:
                    tell(lacking)
            finally:
                self.on_stages = False

    async def _left_s(self) -> float:
        services, spec, text = self._services, self._source.spec, self._source.text
        limits = services.admission.text_limits(spec.tenant)
        timeouts = RecordTimeouts(
            *(services.settings, limits, text, self.last_s, self._first, self._source.rows)
        )
        left_s = timeouts.left_s(time.monotonic())
        if self._first and self._job_lost():
            raise StoreLost("the broker lost what it had stored, this request with it: ask again")
        if spec.offline:  # listeners come first, however long that takes
            left_s += services.tuning.offline_s
        if left_s <= 0:
            raise await exhausted(timeouts, services, spec.model.name, self._source.request_id)
        return left_s

    def _job_lost(self) -> bool:
        """It waited in a queue that is gone, and no worker that had it already has begun since."""
        lost_s = self._services.bus.link.store.queues_lost_s
        grace_s = self._services.tuning.lost_job_s
        return self.last_s < lost_s and time.monotonic() - lost_s > grace_s

    def _lacks(self) -> AntiphonError | None:
        """What it waits for, unless it said so."""
        if time.monotonic() - self.last_s < self._services.tuning.tell_s:
            return None
        lacking = self._services.lacks(self._source.spec.model.name)
        if lacking is None or lacking.message == self._told:
            return None
        self._told = lacking.message
        return lacking
