"""Watches of the broker: whose connection it says has gone, and whether it keeps what it should."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import cycle
from typing import Any, Final

import msgspec
import nats.errors
import structlog

from ttscommon.bus.client import BusClient
from ttscommon.bus.credentials import system_credentials
from ttscommon.bus.faults import STREAM_NOT_FOUND, Unreachable, is_refusal, reason
from ttscommon.bus.layout import Layout
from ttscommon.bus.link import Incoming, Link, dial
from ttscommon.wire.errors import BusUnavailable, StoreFull, StoreLost, StoreUnavailable
from ttscommon.wire.subjects import STAGES

_SUBJECT: Final = "$SYS.ACCOUNT.*.DISCONNECT"
_COMPLAIN_S: Final = 5.0

log_ = structlog.get_logger(__name__)


class _Event(msgspec.Struct):
    client: dict[str, Any] = {}


async def watch_disconnects(link: Link, callback: Callable[[str], None]) -> None:
    """Call back with the name of every connection that ends, until cancelled.

    Ends at once without a system account: pings alone are slower. Waits for the broker for ever.
    """
    settings, client = link.settings, BusClient()
    if not settings.watches_disconnects:
        return

    async def on_event(message: Incoming) -> None:
        try:
            event = msgspec.json.decode(message.data, type=_Event)
        except (msgspec.MsgspecError, ValueError):
            return
        callback(str(event.client.get("name", "")))

    try:
        await dial(
            client,
            settings,
            name=f"{link.worker_id}-system",
            **system_credentials(settings),
            error_cb=_complain(_COMPLAIN_S),
            reconnected_cb=_say_that_it_is_back,
        )
        await client.subscribe(_SUBJECT, cb=on_event)
    except Unreachable as error:
        log_.error("system_account.unusable", error=reason(error))
        return
    try:
        await asyncio.Event().wait()
    finally:
        await client.close()


def _complain(interval_s: float) -> Callable[[Exception], Awaitable[None]]:
    """An error callback that says at intervals why there is no connection.

    One that was lost comes back, and pings find the dead meanwhile; one that is refused does not.
    """
    logged_s = 0.0

    async def complain(error: Exception) -> None:
        nonlocal logged_s
        if time.monotonic() - logged_s >= interval_s:
            logged_s = time.monotonic()
            tell = log_.error if is_refusal(error) else log_.warning
            tell("system_account.unusable", error=reason(error))

    return complain


async def _say_that_it_is_back() -> None:
    log_.info("system_account.usable")


Write = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class WatchTuning:
    """Noticing a broker that does not store."""

    look_s: float = 1.0
    """Between two looks."""
    info_s: float = 0.5
    """How long a stream's leader may take to answer."""
    idle_s: float = 2.0
    """After so long without a write one is made, to see whether it is taken."""
    silent_s: float = 1.5
    """How long no stream may take a write while one answers everything else."""
    clustered_s: float = 12.0
    """The same where that stream has copies: a former leader behaves so too."""


class _Look(Enum):
    """What a question for a stream brought."""

    FOUND = auto()
    MISSING = auto()
    STORELESS = auto()
    UNSEEN = auto()


class _Code(msgspec.Struct):
    err_code: int = 0


class _Config(msgspec.Struct):
    num_replicas: int = 1


class _Answer(msgspec.Struct):
    error: _Code | None = None
    config: _Config | None = None
    created: str = ""


_decoder: Final = msgspec.json.Decoder(_Answer)


class StoreWatch:
    """Keeps `link.store` true; `run` while the process serves."""

    def __init__(
        self, link: Link, write: Write | None = None, tuning: WatchTuning = WatchTuning()
    ) -> None:
        """`write`: stores something harmless, for processes that may store nothing for long."""
        self._link = link
        self._write = write
        self._tuning = tuning
        self._streams = [each.name or "" for each in Layout(link.settings.prefix).streams()]
        self._copied: set[str] = set()
        self._turn = cycle(self._streams)
        self._queues = [link.name(stage.stream) for stage in STAGES.values()]
        self._created: dict[str, str] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        store = self._link.store
        while True:
            began_s = time.monotonic()
            doubted = store.doubted.is_set()
            store.doubted.clear()
            if self._link.connected:
                await self._look(all_=doubted or store.problem is not None)
            # A doubt is looked into at once, and no more often than this.
            await asyncio.sleep(max(0.0, began_s + self._tuning.info_s - time.monotonic()))
            await self._until_doubted(began_s + self._tuning.look_s - time.monotonic())

    async def _until_doubted(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, limit_s)):
                await self._link.store.doubted.wait()
        except TimeoutError:
            return

    async def _look(self, *, all_: bool) -> None:
        await self._try_to_write()
        streams = self._streams if all_ else list({*self._queues, next(self._turn)})
        looks = await asyncio.gather(*(self._ask(stream) for stream in streams))
        found = dict(zip(streams, looks, strict=True))
        if (problem := self._problem(found)) is not None:
            self._link.store.find(problem)
        elif all_ and self._is_well(looks):
            self._link.store.heal()

    def _is_well(self, looks: list[_Look]) -> bool:
        """All is there; and if the store was full, it has taken something since."""
        store = self._link.store
        taken = store.takes or not isinstance(store.problem, StoreFull)
        return taken and all(look is _Look.FOUND for look in looks)

    def _problem(self, found: dict[str, _Look]) -> StoreUnavailable | None:
        if _Look.STORELESS in found.values():
            return StoreLost("the broker runs without its store")
        missing = [stream for stream, look in found.items() if look is _Look.MISSING]
        if missing:
            names = ", ".join(missing)
            return StoreLost(f"the broker has lost {names}: `antiphon bus create` makes them again")
        if any(self._link.store.deaf(stream, self._silent_s(stream)) for stream in found):
            return StoreFull("the broker stores nothing any more: its disk may be full")
        return None

    def _silent_s(self, stream: str) -> float:
        copied = stream in self._copied
        return self._tuning.clustered_s if copied else self._tuning.silent_s

    async def _try_to_write(self) -> None:
        store = self._link.store
        idle = time.monotonic() - store.kept_s > self._tuning.idle_s
        if self._write is None or not (idle or store.problem is not None):
            return
        try:
            await self._write()
        except BusUnavailable as error:
            log_.debug("store.unwritten", error=error.message)

    async def _ask(self, stream: str) -> _Look:
        look = await self._seen(stream)
        if look is _Look.FOUND:
            self._link.store.found(stream)
        else:
            self._link.store.unseen(stream)
        return look

    async def _seen(self, stream: str) -> _Look:
        subject = f"$JS.API.STREAM.INFO.{stream}"
        try:
            answer = await self._link.client.request(subject, b"", timeout=self._tuning.info_s)
            word = _decoder.decode(answer.data)
        except nats.errors.NoRespondersError:
            return _Look.STORELESS
        except (*Unreachable, msgspec.MsgspecError) as failure:
            log_.debug("stream.unseen", stream=stream, error=reason(failure))
            return _Look.UNSEEN
        if word.error is not None:
            missing = word.error.err_code == STREAM_NOT_FOUND
            if missing:
                self._recognise(stream, "")
            return _Look.MISSING if missing else _Look.UNSEEN
        self._recognise(stream, word.created)
        if word.config is not None and word.config.num_replicas > 1:
            self._copied.add(stream)
        return _Look.FOUND

    def _recognise(self, stream: str, created: str) -> None:
        """Whether a queue is the one that was there before. created: when; empty if it is gone."""
        before = self._created.get(stream, created)
        self._created[stream] = created
        if stream in self._queues and before and created != before:
            self._link.store.lost_queue(stream)
