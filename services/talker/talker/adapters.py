"""Adapters of a talker: those of its folder, each in one of its own by whose name it is asked for,
and those that it holds, which are loaded when a request needs one and unloaded by last use.

Files are read, checked and copied in threads; the engine goes on meanwhile. A slot that a request
uses stays as it is until the request has left the engine.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import structlog
from msgspec import structs

from ttscommon.bus import Bus
from ttscommon.cluster.adapters import peft
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.process.metrics import Metrics
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, InvalidAdapter, Overloaded, UnknownAdapter
from ttscommon.wire.parameters import Adapter, AdapterRef
from ttsfamilies.base.talker.base import ModelSpec
from ttsfamilies.base.talker.options import Adaptable, Sized

_AGAIN_S: Final = 0.2
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AdapterLibrary:
    """listed: what `folder` has, each under its own name; empty where there is no folder."""

    folder: Path | None = None
    listed: tuple[Adapter, ...] = ()

    @classmethod
    def of(cls, folder: Path | None, model: Adaptable, most_bytes: int) -> AdapterLibrary:
        """Those of `folder` that fit the model; the others are named in the log.

        Raises CheckpointError where there is no such folder.
        """
        listed: list[Adapter] = []
        for path in [] if folder is None else _folders(folder):
            try:
                listed.append(_read(path, model, most_bytes))
            except InvalidAdapter as error:
                log_.error("adapter.refused", adapter=path.name, reason=error.message)
        return cls(folder, tuple(listed))

    def has(self, digest: str) -> bool:
        """Whether one of this content is here."""
        return any(one.digest == digest for one in self.listed)

    def read(self, digest: str, most_bytes: int) -> Files:
        """The files with this content; raises InvalidAdapter where they have changed."""
        name = next(one.name for one in self.listed if one.digest == digest)
        assert self.folder is not None
        files = Files.read(self.folder / name, most_bytes)
        if files.digest != digest:
            raise InvalidAdapter(f"the adapter {name} was changed while it is served")
        return files


def _folders(folder: Path) -> Iterator[Path]:
    try:
        for path in sorted(folder.iterdir()):
            if peft.held(path):
                yield path
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error


def _read(path: Path, model: Adaptable, most_bytes: int) -> Adapter:
    if not _NAME.fullmatch(path.name):
        raise InvalidAdapter("its folder's name has other than 1 to 64 letters, digits, '-', '_'")
    lora = Lora.parse(Files.read(path, most_bytes), model.most_rank)
    model.fitted(lora)
    return Adapter(path.name, lora.digest, lora.rank)


def with_adapters(spec: ModelSpec, library: AdapterLibrary, bindings: Sequence[str]) -> ModelSpec:
    """The model with what its library has. bindings: VOICE=ADAPTER, see TalkerSettings.

    Raises CheckpointError for a binding of a voice or to an adapter that is not there.
    """
    bound = dict(_binding(one) for one in bindings)
    names, voices = {one.name for one in library.listed}, {voice.id for voice in spec.voices}
    for voice, adapter in bound.items():
        if voice not in voices or adapter not in names:
            raise CheckpointError(
                f"{voice}={adapter}: the model has no such voice, or its folder no such adapter"
            )
    spoken = tuple(structs.replace(v, adapter=bound.get(v.id, "")) for v in spec.voices)
    return replace(spec, voices=spoken, adapters=library.listed)


def _binding(text: str) -> tuple[str, str]:
    voice, _, adapter = text.partition("=")
    return voice.strip(), adapter.strip()


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
