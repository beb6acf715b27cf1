"""Adapters that a talker holds: loaded when a request needs one, unloaded by last use.

Files are read, checked and copied in threads; the engine goes on meanwhile. A slot that a request
uses stays as it is until the request has left the engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from talker.adapter_library import AdapterLibrary
from ttscommon.bus import Bus
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.process.metrics import Metrics
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, InvalidAdapter, Overloaded, UnknownAdapter
from ttscommon.wire.parameters import AdapterRef
from ttsfamilies.base.talker.options import Adaptable, Sized

_AGAIN_S: Final = 0.2

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AdapterTiming:
    """wait_s: for a slot while requests use all of them. broker_s: for a broker that is away.
    load_s: for all of a load.
    """

    wait_s: float = 10.0
    broker_s: float = 10.0
    load_s: float = 60.0


@dataclass(eq=False)
class _Held:
    """One that is loaded or being loaded. users: requests that need it."""

    slot: int
    loading: asyncio.Task[None] | None = None
    size: int = 0
    users: int = 0
    used_s: float = field(default_factory=time.monotonic)


class Adapters:
    """To be used on the event loop. most_bytes: of all that are held together."""

    def __init__(
        self,
        bus: Bus,
        model: Adaptable,
        library: AdapterLibrary,
        most_bytes: int,
        metrics: Metrics,
        timing: AdapterTiming = AdapterTiming(),
    ) -> None:
        self._bus, self._model, self._library = bus, model, library
        self._most_bytes, self._metrics, self._timing = most_bytes, metrics, timing
        self._held: dict[str, _Held] = {}
        self._free = list(range(model.slots))
        self._changed = asyncio.Event()
        self._fitting = asyncio.Lock()
        metrics.adapter_unloads.labels()  # counters start at 0
        self._tell()

    async def acquire(self, ref: AdapterRef) -> Callable[[], None]:
        """Have an adapter loaded until what is returned is called, once.

        Raises UnknownAdapter, InvalidAdapter, Overloaded while requests use all slots for others,
        BusUnavailable.
        """
        held = self._held.get(ref.digest) or await self._begin(ref)
        held.users += 1
        try:
            assert held.loading is not None
            await asyncio.shield(held.loading)
        except BaseException:
            self._release(held)
            raise
        return lambda: self._release(held)

    async def _begin(self, ref: AdapterRef) -> _Held:
        slot = await self._slot(ref.digest)
        if isinstance(slot, _Held):
            return slot  # another request was first
        held = self._held[ref.digest] = _Held(slot)
        held.loading = asyncio.create_task(self._load(ref, held), name=f"adapter-{ref.name}")
        held.loading.add_done_callback(lambda task: self._loaded(ref.digest, held, task))
        return held

    async def _slot(self, digest: str) -> int | _Held:
        """A free slot, if need be after another adapter was unloaded; raises Overloaded."""
        until_s = time.monotonic() + self._timing.wait_s
        while not (self._free or self._unload()):
            await self._change(until_s, "adapters as this talker holds at once")
            if (held := self._held.get(digest)) is not None:
                return held
        return self._held.get(digest) or self._free.pop()

    def _unload(self) -> bool:
        """Free the slot that was used longest ago; False where requests use all of them."""
        idle = [
            (held.used_s, digest)
            for digest, held in self._held.items()
            if not held.users and held.loading is not None and held.loading.done()
        ]
        if not idle:
            return False
        _, digest = min(idle)
        self._drop(digest)
        self._metrics.adapter_unloads.labels().inc()
        return True

    def _drop(self, digest: str) -> None:
        held = self._held.pop(digest)
        self._model.drop(held.slot)
        self._free.append(held.slot)
        self._tell()

    async def _load(self, ref: AdapterRef, held: _Held) -> None:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timing.load_s):
                packed = await self._stored(ref)
                fitted = await asyncio.to_thread(self._fit, ref, packed)
                async with self._fitting:
                    await self._make_room(held, fitted)
                    await asyncio.to_thread(self._model.put, held.slot, fitted)
        except TimeoutError as error:
            raise Overloaded("the adapter could not be loaded in time") from error
        took_s = time.monotonic() - began_s
        self._metrics.adapter_load.labels().observe(took_s)
        log_.info("adapter.loaded", adapter=ref.name, digest=ref.digest, took_s=round(took_s, 4))

    async def _stored(self, ref: AdapterRef) -> bytes | None:
        """What a client uploaded; None where it is in the talker's own folder."""
        if self._library.has(ref.digest):
            return None
        if not ref.stored:
            raise UnknownAdapter(
                f"this talker's folder has no adapter '{ref.name}' of the same content",
                param="adapter",
            )
        until_s = time.monotonic() + self._timing.broker_s
        while True:
            try:
                packed = await self._bus.objects.get(subjects.RECORDINGS, ref.stored)
                break
            except BusUnavailable:
                if time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_AGAIN_S)
        if packed is None:
            raise UnknownAdapter(f"the adapter '{ref.name}' was deleted", param="adapter")
        return packed

    def _fit(self, ref: AdapterRef, packed: bytes | None) -> Sized:
        if packed is None:
            files = self._library.read(ref.digest, self._most_bytes)
        else:
            files = Files.unpacked(packed)
        if files.digest != ref.digest:
            raise InvalidAdapter(f"the adapter '{ref.name}' is damaged", param="adapter")
        return self._model.fitted(Lora.parse(files, self._model.most_rank))

    async def _make_room(self, held: _Held, fitted: Sized) -> None:
        """Unload others until all together keep to their bytes; raises InvalidAdapter, Overloaded.

        Their slots are free then, for the next.
        """
        if fitted.size > self._most_bytes:
            raise InvalidAdapter(
                f"the adapter takes over {self._most_bytes} bytes", param="adapter"
            )
        until_s = time.monotonic() + self._timing.wait_s
        while sum(one.size for one in self._held.values()) + fitted.size > self._most_bytes:
            if not self._unload():
                await self._change(until_s, "bytes of adapters as this talker holds")
        held.size = fitted.size

    async def _change(self, until_s: float, what: str) -> None:
        """Wait until a request leaves an adapter, or one is loaded; raises Overloaded."""
        self._changed.clear()
        try:
            async with asyncio.timeout(until_s - time.monotonic()):
                await self._changed.wait()
        except TimeoutError:
            raise Overloaded(f"requests use as many {what}") from None

    def _loaded(self, digest: str, held: _Held, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._drop(digest)
        self._wake()

    def _release(self, held: _Held) -> None:
        held.users -= 1
        held.used_s = time.monotonic()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._tell()

    def _tell(self) -> None:
        self._metrics.adapters.labels().set(len(self._held))
        self._metrics.adapter_bytes.labels().set(sum(one.size for one in self._held.values()))
