"""Election of one reaper of several: it holds a key that others may take when it goes stale."""

from __future__ import annotations

import time
from typing import Final

import structlog

from ttscommon.bus import BucketEntry, Bus
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders
from ttscommon.wire.subjects import LEASES

KEY: Final = "reaper"

log_ = structlog.get_logger(__name__)


class Election:
    """`stand` again and again; `leading` says how it stands."""

    def __init__(self, bus: Bus, tuning: ReaperTuning) -> None:
        self._bus = bus
        self._tuning = tuning
        self._until_s = 0.0
        self._renewed_s = 0.0
        self._rival_revision = 0
        self._rival_since_s = 0.0
        self._rival_absent_s: float | None = None

    @property
    def leading(self) -> bool:
        return self._bus.connected and time.monotonic() < self._until_s

    async def stand(self) -> None:
        """Be elected, or stay so.

        Without a leader of the bucket none can be elected, so the elected one goes on: a worker
        may have died with the very broker that led the bucket.
        """
        started_s = time.monotonic()
        led = started_s < self._until_s
        if led and started_s - self._renewed_s < self._tuning.renewal_s:
            return
        try:
            await self._decide(await self._bus.kv.entry(LEASES, KEY), started_s)
        except BusUnavailable as error:
            log_.debug("reaper.unelected", error=error.message)
            if led and started_s - self._renewed_s < self._tuning.leaderless_s:
                self._until_s = time.monotonic() + self._tuning.term_s

    async def _decide(self, entry: BucketEntry, started_s: float) -> None:
        me = self._bus.worker_id.encode()
        if entry.value not in (None, me) and not await self._stale(entry):
            self._until_s = 0.0
            return
        if await self._bus.kv.replace(LEASES, KEY, me, entry.revision) is None:
            return
        if not self.leading:
            log_.info("reaper.elected", worker_id=self._bus.worker_id)
        self._renewed_s, self._until_s = started_s, started_s + self._tuning.term_s

    async def _stale(self, entry: BucketEntry) -> bool:
        """Whether the holder is gone, or stopped renewing."""
        now = time.monotonic()
        if entry.revision != self._rival_revision:
            self._rival_revision, self._rival_since_s = entry.revision, now
        elif now - self._rival_since_s >= self._tuning.term_s:
            return True
        return await self._gone((entry.value or b"").decode("ascii", "replace"), now)

    async def _gone(self, rival: str, now: float) -> bool:
        try:
            await self._bus.link.request(subjects.ping(rival), b"", self._tuning.ping_s)
        except NoResponders:
            if self._rival_absent_s is None:
                self._rival_absent_s = now
            return now - self._rival_absent_s >= self._tuning.reunion_s
        except BusUnavailable:
            return False
        self._rival_absent_s = None
        return False
