"""Suspensions of this process: paused, starved of CPU, or cut off from the broker."""

from __future__ import annotations

import asyncio
import time

from ttscommon.bus import Bus
from ttscommon.cluster.worker.tuning import AbsenceTuning


class Suspensions:
    """Use as a context manager; `next` waits for the end of one."""

    def __init__(self, bus: Bus, tuning: AbsenceTuning) -> None:
        self._bus = bus
        self._tuning = tuning
        self._returned = asyncio.Event()

    def __enter__(self) -> Suspensions:
        self._bus.link.on_reconnect(self._on_reconnect)
        return self

    def __exit__(self, *_: object) -> None:
        self._bus.link.off_reconnect(self._on_reconnect)

    async def next(self) -> None:
        """Until this process is back from an absence, or none was seen for `audit_s`."""
        began_s = time.monotonic()
        while not self._returned.is_set() and time.monotonic() - began_s < self._tuning.audit_s:
            asleep_s = time.monotonic()
            await self._tick()
            if time.monotonic() - asleep_s > self._tuning.tick_s + self._tuning.late_s:
                break
        self._returned.clear()

    async def _tick(self) -> None:
        try:
            async with asyncio.timeout(self._tuning.tick_s):
                await self._returned.wait()
        except TimeoutError:
            return

    async def _on_reconnect(self) -> None:
        self._returned.set()
