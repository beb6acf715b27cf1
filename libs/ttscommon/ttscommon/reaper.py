"""Hands a dead worker's jobs on within milliseconds; ack_wait is only the backstop.

The server says at once when a connection is gone. A short grace lets a worker that merely
changed servers come back; then a ping decides: a subject without subscribers answers
"no responders" immediately, so death is known, not guessed. A worker that is connected but does
not answer (stopped, wedged) is given up after several silent pings. One reaper works at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus, DisconnectWatch, Entry
from ttscommon.errors import BusUnavailable, MalformedMessage, NoResponders
from ttscommon.replicas import Lease

_LEADER: Final = "reaper"

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReaperTuning:
    """Seconds. `grace_s`: a worker that merely changed brokers is back by then. `reunion_s`: after
    an outage all processes come back, some sooner than this one, some later. `ping_s`: how long an
    answer may take. `late_s`: a ping that took longer than it may by so much was not waited for,
    this process was late itself. `round_s`: between two pings. `silent_rounds`: pings without an
    answer until a connected worker is given up. `term_s`: how long an election holds. A NAK is
    tried `naks` times, for `nak_s` each.
    """

    grace_s: float = 0.1
    reunion_s: float = 1.5
    ping_s: float = 0.5
    late_s: float = 0.25
    round_s: float = 0.5
    silent_rounds: int = 3
    term_s: float = 3.0
    naks: int = 20
    nak_s: float = 0.3
    nak_pause_s: float = 0.05


class Reaper:
    """Watches leases and connections while it is the elected one of all reapers."""

    def __init__(self, bus: Bus, tuning: ReaperTuning = ReaperTuning()) -> None:
        self.reaped = 0
        self._bus = bus
        self._tuning = tuning
        self.leases: dict[str, Lease] = {}
        self._silent: Counter[str] = Counter()
        self._leading_until_s = 0.0
        self._trusting_from_s = 0.0
        self._checks: set[asyncio.Task[None]] = set()

    @property
    def leading(self) -> bool:
        return time.monotonic() < self._leading_until_s

    @property
    def _trusts(self) -> bool:
        """Whether silence means something: not when we were away ourselves just now."""
        return self._bus.connected and time.monotonic() >= self._trusting_from_s

    async def run(self) -> None:
        """Work until cancelled."""
        self._bus.link.on_reconnect(self._on_reconnect)
        disconnects = await DisconnectWatch.start(self._bus.link, self._on_disconnect)
        duties = [self._forever(d) for d in (self._stand, self._watch_leases, self._ping_round)]
        try:
            await asyncio.gather(*duties)
        finally:
            self._bus.link.off_reconnect(self._on_reconnect)
            if disconnects is not None:
                await disconnects.close()

    async def _on_reconnect(self) -> None:
        self._trusting_from_s = time.monotonic() + self._tuning.reunion_s

    async def _forever(self, duty: Any) -> None:
        while True:
            try:
                await duty()
            except BusUnavailable as error:
                log_.debug("reaper.retry", duty=duty.__name__, error=error.message)
            await asyncio.sleep(self._tuning.round_s)

    async def _stand(self) -> None:
        """Be elected, or stay so: the holder of a key that others may take when it goes stale."""
        started = time.monotonic()
        kv = self._bus.kv
        me = self._bus.worker_id.encode()
        entry = await kv.entry(subjects.LEASES, _LEADER)
        if entry is not None and entry.value != me and not await self._stale(entry.revision):
            return
        if await kv.replace(subjects.LEASES, _LEADER, me, entry.revision if entry else 0):
            self._leading_until_s = started + self._tuning.term_s

    async def _stale(self, revision: int) -> bool:
        """Whether the holder stopped renewing."""
        await asyncio.sleep(self._tuning.term_s)
        entry = await self._bus.kv.entry(subjects.LEASES, _LEADER)
        return entry is not None and entry.revision == revision

    async def _watch_leases(self) -> None:
        self.leases.clear()
        async with self._bus.kv.watch(subjects.LEASES, self._tuning.round_s) as changes:
            async for entry in changes:
                if entry is not None and entry.key != _LEADER:
                    self._note(entry)

    def _note(self, entry: Entry) -> None:
        if entry.value is None:
            self.leases.pop(entry.key, None)
            return
        try:
            self.leases[entry.key] = Lease.decode(entry.value)
        except MalformedMessage as error:
            log_.warning("lease.malformed", key=entry.key, error=error.message)

    async def _ping_round(self) -> None:
        """Workers that hold leases must answer, whether or not a disconnect was seen."""
        if not self.leading:
            return
        workers = {lease.worker_id for lease in self.leases.values()}
        self._silent = Counter({w: n for w, n in self._silent.items() if w in workers})
        await asyncio.gather(*(self._check(worker) for worker in workers))

    def _on_disconnect(self, name: str) -> None:
        if any(lease.worker_id == name for lease in self.leases.values()):
            task = asyncio.create_task(self._check_after_grace(name))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check_after_grace(self, worker_id: str) -> None:
        await asyncio.sleep(self._tuning.grace_s)
        if self.leading:
            await self._check(worker_id)

    async def _check(self, worker_id: str) -> None:
        asked_s = time.monotonic()
        try:
            await self._bus.link.request(subjects.ping(worker_id), b"", self._tuning.ping_s)
            self._silent.pop(worker_id, None)
        except NoResponders:
            if self._trusts:
                await self._hand_on(worker_id, "gone")
        except BusUnavailable:
            late = time.monotonic() - asked_s > self._tuning.ping_s + self._tuning.late_s
            if self._trusts and not late:
                self._silent[worker_id] += 1
            if self._silent[worker_id] >= self._tuning.silent_rounds:
                await self._hand_on(worker_id, "silent")

    async def _hand_on(self, worker_id: str, why: str) -> None:
        leases = [lease for lease in self.leases.values() if lease.worker_id == worker_id]
        if leases:
            log_.warning("reaper.handing_on", worker_id=worker_id, why=why, jobs=len(leases))
        for lease in leases:
            del self.leases[lease.key]  # before anything is awaited: a second check may come now
        await asyncio.gather(*(self._nak(lease) for lease in leases))

    async def _nak(self, lease: Lease) -> None:
        """Have the broker deliver the job again, now."""
        for _ in range(self._tuning.naks):
            try:
                await self._bus.queue.hand_on(lease.ack_subject, self._tuning.nak_s)
                self.reaped += 1
                return
            except BusUnavailable:
                await asyncio.sleep(self._tuning.nak_pause_s)
        log_.warning("reaper.nak_lost", request_id=lease.request_id, stage=lease.stage)
