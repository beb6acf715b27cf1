"""Hands a dead worker's jobs on within milliseconds; ack_wait is only the backstop.

Four duties share one view of the leases. The election says which reaper works. The pulse says which
workers are dead. What they held is handed on, each job by itself, for as long as it takes. And jobs
that nobody holds, or ever held a lease of, are found and queued again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus, DisconnectWatch, Incoming
from ttscommon.errors import BusUnavailable
from ttscommon.reaper.election import Election
from ttscommon.reaper.handing import HandingOn
from ttscommon.reaper.orphans import Orphans
from ttscommon.reaper.pulse import Pulse, Verdict
from ttscommon.reaper.tuning import DEFAULT_TUNING, ReaperTuning
from ttscommon.reaper.view import LeaseView, Seen
from ttscommon.tasks import stop

log_ = structlog.get_logger(__name__)

Duty = Callable[[], Awaitable[None]]


class Reaper:
    """Watches leases and connections while it is the elected one of all reapers."""

    def __init__(self, bus: Bus, tuning: ReaperTuning = DEFAULT_TUNING) -> None:
        self.reaped = 0
        self.view = LeaseView(bus)
        self._bus = bus
        self._tuning = tuning
        self._election = Election(bus, tuning)
        self._pulse = Pulse(bus, tuning)
        self._handing = HandingOn(bus, self.view, tuning)
        self._orphans = Orphans(bus, self.view, self._handing, tuning)
        self._doubted: set[str] = set()
        self._announced: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def leading(self) -> bool:
        return self._election.leading

    async def run(self) -> None:
        """Work until cancelled."""
        link, tuning = self._bus.link, self._tuning
        link.on_reconnect(self._on_reconnect)
        ping = await link.subscribe(subjects.ping(self._bus.worker_id), _pong)
        disconnects = asyncio.create_task(self._watch_disconnects())
        try:
            await asyncio.gather(
                disconnects,
                self._forever(self._election.stand, tuning.round_s),
                self._forever(self._refresh, tuning.view_s),
                self._forever(self._refresh_replicas, tuning.replicas_s),
                self._forever(self._ping_round, tuning.round_s),
                self._forever(self._check_orphans, tuning.check_s),
            )
        finally:
            link.off_reconnect(self._on_reconnect)
            await stop(disconnects, *self._tasks)
            await self._bus.unsubscribe(ping)

    async def check(self, worker_id: str, *, reported: bool = False) -> None:
        """Ping a worker, and hand its jobs on if it is dead."""
        verdict = await self._pulse.check(worker_id, reported=reported)
        if verdict is Verdict.ALIVE:
            self._announced.discard(worker_id)
        if verdict in (Verdict.GONE, Verdict.SILENT):
            if self.leading:
                self._hand_on(worker_id, verdict)
                await self._announce(worker_id)
        elif (pause_s := self._pulse.doubted_s(worker_id)) is not None:
            self._look_again(worker_id, pause_s)

    def _look_again(self, worker_id: str, pause_s: float) -> None:
        """As soon as an absence has lasted long enough, which is between two rounds."""
        if worker_id not in self._doubted:
            self._doubted.add(worker_id)
            self._in_background(self._check_again(worker_id, pause_s))

    async def _check_again(self, worker_id: str, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        self._doubted.discard(worker_id)
        await self.check(worker_id)

    async def _announce(self, worker_id: str) -> None:
        """Tell the gateways, once, that a worker has no slots any more."""
        if worker_id not in self._announced:
            self._announced.add(worker_id)
            await self._bus.link.send_raw(subjects.gone(worker_id), worker_id.encode())

    async def _on_reconnect(self) -> None:
        self._pulse.came_back()

    async def _forever(self, duty: Duty, pause_s: float) -> None:
        while True:
            try:
                await duty()
            except BusUnavailable as error:
                log_.debug("reaper.retry", duty=duty.__name__, error=error.message)
            await asyncio.sleep(pause_s)

    async def _refresh(self) -> None:
        if self.leading:
            await self.view.refresh()

    async def _refresh_replicas(self) -> None:
        if self.leading:
            await self._handing.refresh()

    async def _ping_round(self) -> None:
        """Workers must answer, idle or not, whether or not a disconnect was seen."""
        if not self.leading:
            return
        workers = self.view.workers() | self._handing.workers()
        self._pulse.forget_others(workers)
        self._announced &= workers
        await asyncio.gather(*(self.check(worker) for worker in workers))

    async def _check_orphans(self) -> None:
        if self.leading:
            await self._orphans.check()

    async def _watch_disconnects(self) -> None:
        """Never ends: without a system account pings alone are slower."""
        watch = await DisconnectWatch.start(self._bus.link, self._on_disconnect)
        try:
            await asyncio.Event().wait()
        finally:
            if watch is not None:
                await watch.close()

    def _on_disconnect(self, name: str) -> None:
        if self.leading:
            self._in_background(self._check_after_grace(name))

    async def _check_after_grace(self, worker_id: str) -> None:
        await asyncio.sleep(self._tuning.grace_s)
        try:
            await self.view.refresh()  # it may have claimed a job since the last time
        except BusUnavailable:
            log_.debug("reaper.view_stale")
        if self.view.held_by(worker_id) or worker_id in self._handing.workers():
            await self.check(worker_id, reported=True)

    def _hand_on(self, worker_id: str, why: Verdict) -> None:
        held = self.view.held_by(worker_id)
        if held:
            reason = why.name.lower()
            log_.warning("reaper.handing_on", worker_id=worker_id, why=reason, jobs=len(held))
        for seen in held:
            self._in_background(self._hand_one_on(seen))

    async def _hand_one_on(self, seen: Seen) -> None:
        if await self._handing.run(seen):
            self.reaped += 1

    def _in_background(self, duty: Awaitable[None]) -> None:
        task = asyncio.ensure_future(duty)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _pong(message: Incoming) -> None:
    await message.respond(b"")
