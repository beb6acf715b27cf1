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
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.bus.connection import dial
from ttscommon.bus.logstore import Unreachable
from ttscommon.errors import BusUnavailable, MalformedMessage
from ttscommon.replicas import Lease
from ttscommon.settings import BusSettings

_GRACE_S: Final = 0.1
# After an outage of the broker everybody comes back, some sooner than we, some later.
_REUNION_S: Final = 1.5
_PING_TIMEOUT_S: Final = 0.5
# A ping that took longer than it may was not waited for: this process was late itself.
_LATE_S: Final = 0.25
_ROUND_S: Final = 0.5
_SILENT_ROUNDS: Final = 3
_TERM_S: Final = 3.0
_LEADER: Final = "reaper"

log_ = structlog.get_logger(__name__)


class _Event(msgspec.Struct):
    client: dict[str, Any] = {}


class Reaper:
    """Watches leases and connections while it is the elected one of all reapers."""

    def __init__(self, bus: Bus, settings: BusSettings) -> None:
        self.reaped = 0
        self._bus = bus
        self._settings = settings
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
        self._bus.on_reconnect(self._on_reconnect)
        system = await self._watch_disconnects()
        duties = [self._forever(d) for d in (self._stand, self._watch_leases, self._ping_round)]
        try:
            await asyncio.gather(*duties)
        finally:
            self._bus.off_reconnect(self._on_reconnect)
            if system is not None:
                await system.close()

    async def _on_reconnect(self) -> None:
        self._trusting_from_s = time.monotonic() + _REUNION_S

    async def _forever(self, duty: Any) -> None:
        while True:
            try:
                await duty()
            except (*Unreachable, BusUnavailable) as error:
                log_.debug("reaper.retry", duty=duty.__name__, error=str(error))
            await asyncio.sleep(_ROUND_S)

    async def _stand(self) -> None:
        """Be elected, or stay so: the holder of a key that others may take when it goes stale."""
        started = time.monotonic()
        store = await self._bus.kv.bucket(subjects.LEASES)
        me = self._bus.worker_id.encode()
        try:
            entry = await store.get(_LEADER)
        except nats.js.errors.NotFoundError:
            await store.create(_LEADER, me)
        else:
            stale = await self._stale(entry.revision or 0) if entry.value != me else True
            if not stale:
                return
            await store.update(_LEADER, me, last=entry.revision)
        self._leading_until_s = started + _TERM_S

    async def _stale(self, revision: int) -> bool:
        """Whether the holder stopped renewing."""
        await asyncio.sleep(_TERM_S)
        store = await self._bus.kv.bucket(subjects.LEASES)
        return (await store.get(_LEADER)).revision == revision

    async def _watch_leases(self) -> None:
        store = await self._bus.kv.bucket(subjects.LEASES)
        self.leases.clear()
        watcher = await store.watchall()
        try:
            while True:
                try:
                    entry = await watcher.updates(timeout=_ROUND_S)  # type: ignore[no-untyped-call]
                except (TimeoutError, nats.errors.TimeoutError):
                    continue
                if entry is None or entry.key == _LEADER:
                    continue
                if entry.value is None or entry.operation in ("DEL", "PURGE"):
                    self.leases.pop(entry.key, None)
                    continue
                try:
                    self.leases[entry.key] = Lease.decode(entry.value)
                except MalformedMessage as error:
                    log_.warning("lease.malformed", key=entry.key, error=error.message)
        finally:
            await watcher.stop()  # type: ignore[no-untyped-call]

    async def _ping_round(self) -> None:
        """Workers that hold leases must answer, whether or not a disconnect was seen."""
        if not self.leading:
            return
        workers = {lease.worker_id for lease in self.leases.values()}
        self._silent = Counter({w: n for w, n in self._silent.items() if w in workers})
        await asyncio.gather(*(self._check(worker) for worker in workers))

    async def _watch_disconnects(self) -> Client | None:
        """Subscribe on the system account, where there is one; pings alone are slower."""
        settings = self._settings
        if settings.system_user is None:
            return None
        client = Client()
        try:
            await dial(
                client,
                settings,
                name=f"{self._bus.worker_id}-system",
                user=settings.system_user,
                password=settings.system_password,
                error_cb=_quiet,
            )
            await client.subscribe("$SYS.ACCOUNT.*.DISCONNECT", cb=self._on_disconnect)
        except (*Unreachable, OSError) as error:
            log_.warning("reaper.no_system_account", error=str(error))
            return None
        return client

    async def _on_disconnect(self, message: Msg) -> None:
        try:
            name = msgspec.json.decode(message.data, type=_Event).client.get("name", "")
        except (msgspec.MsgspecError, ValueError):
            return
        if any(lease.worker_id == name for lease in self.leases.values()):
            task = asyncio.create_task(self._check_after_grace(str(name)))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check_after_grace(self, worker_id: str) -> None:
        await asyncio.sleep(_GRACE_S)
        if self.leading:
            await self._check(worker_id)

    async def _check(self, worker_id: str) -> None:
        asked_s = time.monotonic()
        try:
            await self._bus.client.request(subjects.ping(worker_id), b"", timeout=_PING_TIMEOUT_S)
            self._silent.pop(worker_id, None)
        except nats.errors.NoRespondersError:
            if self._trusts:
                await self._hand_on(worker_id, "gone")
        except Unreachable:
            late = time.monotonic() - asked_s > _PING_TIMEOUT_S + _LATE_S
            if self._trusts and not late:
                self._silent[worker_id] += 1
            if self._silent[worker_id] >= _SILENT_ROUNDS:
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
        for _ in range(20):
            try:
                await self._bus.client.request(lease.ack_subject, b"-NAK", timeout=0.3)
                self.reaped += 1
                return
            except Unreachable:
                await asyncio.sleep(0.05)
        log_.warning("reaper.nak_lost", request_id=lease.request_id, stage=lease.stage)


async def _quiet(error: Exception) -> None:
    log_.debug("reaper.error", error=str(error))
