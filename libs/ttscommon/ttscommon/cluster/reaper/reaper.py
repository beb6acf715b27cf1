"""Hands a dead worker's jobs on within milliseconds; one gateway's reaper is elected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from ttscommon.bus import BucketEntry, Bus, Incoming, watch_disconnects
from ttscommon.cluster.leases import Lease, lease_holders
from ttscommon.cluster.reaper.failure_detector import FailureDetector, Roster, Verdict, after_death
from ttscommon.cluster.reaper.handing import HandingOn
from ttscommon.cluster.reaper.held_jobs import HeldJobs, StaleLeases
from ttscommon.cluster.reaper.orphans import Orphans
from ttscommon.cluster.reaper.tuning import DEFAULT_TUNING, ReaperTuning
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders
from ttscommon.wire.replicas import Replica
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


Duty = Callable[[], Awaitable[None]]


class Reaper:
    """Watches workers while it is the elected one of all reapers."""

    def __init__(self, bus: Bus, tuning: ReaperTuning = DEFAULT_TUNING) -> None:
        self.roster = Roster(bus)
        self._bus = bus
        self._tuning = tuning
        self._election = Election(bus, tuning)
        self._detector = FailureDetector(bus, tuning)
        self._handing = HandingOn(bus, self.roster, tuning)
        self._held_jobs = HeldJobs(bus, self.roster, tuning)
        self._orphans = Orphans(bus, self._held_jobs, self._handing, tuning)
        self._leftovers = StaleLeases(bus, self._held_jobs, tuning)
        self._has_led = False
        self._pinged_s = self._heard_s = 0.0
        self._listed: dict[str, float] = {}
        # Workers whose leases are being read: who answers meanwhile is not dead.
        self._listing: set[str] = set()
        self._doubted: set[str] = set()
        self._announced: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def leading(self) -> bool:
        return self._election.leading

    @property
    def held(self) -> int:
        """Jobs in the hands of workers, as they said last; 0 while another reaper leads."""
        return len(self._held_jobs) if self.leading else 0

    async def run(self) -> None:
        """Work until cancelled."""
        link, tuning = self._bus.link, self._tuning
        link.on_reconnect(self._on_reconnect)
        ping = await link.subscribe(subjects.ping(self._bus.worker_id), _pong)
        disconnects = asyncio.create_task(watch_disconnects(link, self._on_disconnect))
        try:
            await asyncio.gather(
                disconnects,
                self._forever(self._election.stand, tuning.round_s),
                self._forever(self._refresh, tuning.replicas_s),
                self._forever(self._ping_round, tuning.round_s),
                self._forever(self._check_orphans, tuning.check_s),
                self._forever(self._check_leftovers, tuning.check_s),
            )
        finally:
            link.off_reconnect(self._on_reconnect)
            await stop(disconnects, *self._tasks)
            await self._bus.link.unsubscribe(ping)

    def hear(self, reports: Iterable[Replica]) -> None:
        """This process has just read all reports, for another purpose."""
        if self.leading and self._has_led:
            self.roster.take(reports)
            self._heard_s = time.monotonic()

    async def check(self, worker_id: str, *, reported: bool = False) -> None:
        """Ping a worker, and hand its jobs on if it is dead."""
        verdict = await self._detector.check(worker_id, reported=reported)
        if verdict is Verdict.ALIVE:
            self._announced.discard(worker_id)
            self._listed.pop(worker_id, None)
            self._listing.discard(worker_id)
        if verdict in (Verdict.GONE, Verdict.SILENT):
            if self.leading:
                self._hand_on(worker_id, verdict)
                await self._announce(worker_id)
                if verdict is Verdict.GONE:
                    self.roster.gone(worker_id)
        elif (pause_s := self._detector.doubted_s(worker_id)) is not None:
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
        self._detector.came_back()
        self._leftovers.expect()

    async def _forever(self, duty: Duty, pause_s: float) -> None:
        while True:
            try:
                await duty()
            except BusUnavailable as error:
                log_.debug("reaper.retry", duty=duty.__name__, error=error.message)
            await asyncio.sleep(pause_s)

    async def _refresh(self) -> None:
        """Read who reports; when newly elected, also who holds jobs and may report no more."""
        if not self.leading:
            self._has_led = False
            return
        if time.monotonic() - self._heard_s >= self._tuning.replicas_s or not self._has_led:
            await self.roster.refresh()
        if not self._has_led:
            self._leftovers.expect()
            self.roster.add(await lease_holders(self._bus))
            self._has_led = True

    async def _ping_round(self) -> None:
        """Workers must answer, idle or not, whether or not a disconnect was seen. What idle ones
        hold they are asked anyway.
        """
        now = time.monotonic()
        idle = not (self._held_jobs or self._detector.doubts or self._listed)
        answered_s = max(self._pinged_s, self._held_jobs.answered_s)
        rests = idle and now - answered_s < self._tuning.idle_round_s
        if rests or not self.leading:
            return
        self._pinged_s = now
        workers = self.roster.workers()
        self._detector.forget_others(workers)
        self._announced &= workers
        oldest_s = now - self._tuning.listed_s
        self._listed = {w: at_s for w, at_s in self._listed.items() if at_s > oldest_s}
        await asyncio.gather(*(self.check(worker) for worker in workers))

    async def _check_orphans(self) -> None:
        if self.leading:
            await self._orphans.check()

    async def _check_leftovers(self) -> None:
        if self.leading:
            await self._leftovers.check()

    def _on_disconnect(self, name: str) -> None:
        if self.leading:
            self._in_background(self._check_after_grace(name))

    async def _check_after_grace(self, worker_id: str) -> None:
        await asyncio.sleep(self._tuning.grace_s)
        if worker_id not in self.roster.workers():
            try:
                await self.roster.refresh()  # it may have come since the last time
            except BusUnavailable:
                log_.debug("reaper.roster_stale")
        if worker_id in self.roster.workers():
            await self.check(worker_id, reported=True)

    def _hand_on(self, worker_id: str, why: Verdict) -> None:
        """Once for each death: what it held is read then, and no watch begins before."""
        if worker_id not in self._listed:
            self._listed[worker_id] = time.monotonic()
            self._listing.add(worker_id)
            self._held_jobs.drop(worker_id)
            self._in_background(self._hand_all_on(worker_id, why))

    async def _hand_all_on(self, worker_id: str, why: Verdict) -> None:
        held = await self._held_by(worker_id)
        if held:
            reason = why.name.lower()
            log_.warning("reaper.handing_on", worker_id=worker_id, why=reason, jobs=len(held))
        silent = why is Verdict.SILENT
        after = await after_death(self._bus, held, self._tuning.tail_s, silent=silent)
        await asyncio.gather(*map(self._handing.run, held, after))
        self._leftovers.expect()  # of jobs that it had done already

    async def _held_by(self, worker_id: str) -> list[Lease]:
        """The leases of a dead worker, as soon as the bucket answers; none if it lives by then.

        A broker that was away for long has all workers back before its buckets, and then their jobs
        are new ones.
        """
        while worker_id in self._listing:
            try:
                held = await self._handing.held_by(worker_id)
            except BusUnavailable as error:
                log_.debug("leases.unlisted", worker_id=worker_id, error=error.message)
                await asyncio.sleep(self._tuning.list_s)
                continue
            if worker_id in self._listing:
                self._listing.discard(worker_id)
                return held
        return []

    def _in_background(self, duty: Awaitable[None]) -> None:
        task = asyncio.ensure_future(duty)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _pong(message: Incoming) -> None:
    await message.respond(b"")
