"""Engines of several models in one process: each loaded at its first use, unloaded between them."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import structlog

from ttscommon.process.service import Service
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import ModelFailed

# They lead to everything that is imported, or that runs in the process.
_SHARED: Final = (
    *(ModuleType, type, FrameType, BuiltinFunctionType),
    *(asyncio.AbstractEventLoop, Service),
)


def bytes_held(root: object, beyond: Iterable[object] = ()) -> int:
    """Bytes of all tensors and arrays that can be reached from `root`, each memory once, and not
    through any of `beyond`.
    """
    blocks: dict[int, int] = {}
    for found in _reached(root, {id(one) for one in beyond}):
        address, size = _block(found)
        if size:
            blocks[address] = max(size, blocks.get(address, 0))
    return sum(blocks.values())


def _reached(root: object, seen: set[int]) -> Iterator[Any]:
    """Objects below `root`, without what functions and classes share with the whole process."""
    waiting = [root]
    while waiting:
        one = waiting.pop()
        yield one
        for below in _below(one):
            if id(below) not in seen and not isinstance(below, _SHARED):
                seen.add(id(below))
                waiting.append(below)


def _below(one: Any) -> list[Any]:
    if isinstance(one, FunctionType):
        return [cell.cell_contents for cell in one.__closure__ or () if _filled(cell)]
    return gc.get_referents(one)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _block(found: Any) -> tuple[int, int]:
    """Where the memory of a tensor or array begins, and its bytes; 0 of anything else."""
    if isinstance(found, np.ndarray):
        return (0, 0) if isinstance(found.base, np.ndarray) else (found.ctypes.data, found.nbytes)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(found, torch.Tensor):
        storage = found.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    return 0, 0


# Of glibc's malloc.h, and what they are set to. More than this is never of the heap.
_TRIM_THRESHOLD: Final = -1, 256 << 20
_TOP_PAD: Final = -2, 8 << 20
_MMAP_THRESHOLD: Final = -3, 32 << 20


def keep_memory() -> None:
    """Have the C library keep what engines free for their next launch: a launch's results come and
    go by megabytes, and pages that are taken anew each time cost a third of a generator's time.
    """
    if (option := _of_c_library("mallopt")) is not None:
        for name, value in (_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD):
            option(name, value)


def give_back_memory() -> None:
    """Free what only circles of references hold, and have the C library return what is free."""
    gc.collect()
    if (trim := _of_c_library("malloc_trim")) is not None:
        trim(0)


def _of_c_library(name: str) -> Any:
    """A function that not every one has."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


# As long as a request waits for its first sound, by default.
_ROOM_WAIT_S: Final = 15.0
_LOOK_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class Loadable(Protocol):
    """What is asked of an engine here."""

    @property
    def error(self) -> BaseException | None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


E = TypeVar("E", bound=Loadable)


class ModelMemory:
    """What the models of one process take together, at most `limit_bytes`.

    Models are loaded one at a time. Those without streams make room, the least recently used first,
    and are unloaded after `idle_s` as well.
    """

    def __init__(self, limit_bytes: int | None = None, idle_s: float | None = None) -> None:
        """To be made on the event loop."""
        self._limit_bytes, self._idle_s = limit_bytes, idle_s
        self._models: list[LazyEngine[Loadable]] = []
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def add(self, model: LazyEngine[Loadable]) -> None:
        self._models.append(model)

    def changed(self) -> None:
        """A model has no streams any more."""
        self._changed.set()

    @asynccontextmanager
    async def room_for(self, model: LazyEngine[Loadable]) -> AsyncIterator[None]:
        """Within it `model` may be loaded; raises ModelFailed where no memory becomes free."""
        async with self._turn:
            try:
                await self._until_fits(model.expected_bytes)
            except TimeoutError as error:
                message = f"there is no memory for the model '{model.name}' now"
                raise ModelFailed(message) from error
            yield
            await self._make_room(0)  # it may be larger than was expected

    async def unload_idle(self) -> None:
        """Unload what was not used for long, again and again; never ends."""
        while True:
            await asyncio.sleep(_LOOK_S)
            async with self._turn:
                for model in self._idle():
                    if self._idle_s is not None and model.unused_s > self._idle_s:
                        await model.unload()

    async def _until_fits(self, more_bytes: int) -> None:
        """Raises TimeoutError."""
        until_s = asyncio.get_running_loop().time() + _ROOM_WAIT_S
        while not await self._make_room(more_bytes):
            self._changed.clear()
            async with asyncio.timeout_at(until_s):
                await self._changed.wait()

    async def _make_room(self, more_bytes: int) -> bool:
        """Unload until so many bytes fit, or nothing can be. One alone always fits."""
        if self._limit_bytes is None:
            return True
        while (held := self._held()) and held + more_bytes > self._limit_bytes:
            idle = self._idle()
            if not idle:
                return False
            await max(idle, key=lambda model: model.unused_s).unload()
        return True

    def _held(self) -> int:
        return sum(model.held_bytes for model in self._models)

    def _idle(self) -> list[LazyEngine[Loadable]]:
        return [model for model in self._models if model.engine is not None and not model.users]


class LazyEngine(Generic[E]):
    """One model's engine. `memory`: shared with other models; without one it is loaded once.

    expected_bytes: of the last time that it was loaded, or a guess.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], E],
        memory: ModelMemory | None = None,
        expected_bytes: int = 0,
    ) -> None:
        self.name, self.expected_bytes = name, expected_bytes
        self.engine: E | None = None
        self.held_bytes = self.users = 0
        self._build, self._memory = build, memory
        self._used_s = time.monotonic()
        self._loading: asyncio.Task[E] | None = None
        if memory is not None:
            memory.add(self)  # type: ignore[arg-type]

    @property
    def unused_s(self) -> float:
        """Seconds since its last stream ended."""
        return time.monotonic() - self._used_s

    @asynccontextmanager
    async def use(self) -> AsyncIterator[E]:
        """The engine, which stays for as long; raises ModelFailed where it cannot be loaded."""
        self.users += 1
        try:
            try:
                engine = await self.load()
            except ModelFailed:
                raise
            except Exception as error:
                log_.exception("model.failed", model=self.name, error=str(error))
                raise ModelFailed(f"the model '{self.name}' cannot be loaded") from error
            yield engine
        finally:
            self.users -= 1
            self._used_s = time.monotonic()
            if self._memory is not None:
                self._memory.changed()

    def _loaded(self, whether: bool) -> None:
        """It was loaded, before its first stream, or unloaded; for subclasses."""

    async def load(self) -> E:
        """Load it, unless it is there and alive; raises what building it raises."""
        if self.engine is not None and (self.engine.error is None or self._memory is None):
            return self.engine
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load(), name=f"load-{self.name}")
            self._loading.add_done_callback(_seen)
        return await asyncio.shield(self._loading)

    async def _load(self) -> E:
        if self._memory is None:
            return self._serve(await asyncio.to_thread(self._build))
        if self.engine is not None:
            await self.unload()  # what a crash left
        async with self._memory.room_for(self):  # type: ignore[arg-type]
            engine = await asyncio.to_thread(self._build)
            beyond = (self, self._memory)
            self.held_bytes = self.expected_bytes = await asyncio.to_thread(
                bytes_held, engine, beyond
            )
            log_.info("model.loaded", model=self.name, bytes=self.held_bytes)
            return self._serve(engine)

    def _serve(self, engine: E) -> E:
        self.engine = engine
        self._loaded(True)
        engine.start()
        return engine

    async def unload(self) -> None:
        """Stop the engine and forget it; streams that are still open fail with Stopped."""
        engine, self.engine, self.held_bytes = self.engine, None, 0
        if engine is not None:
            self._loaded(False)
            await asyncio.to_thread(engine.stop)
            del engine
            await asyncio.to_thread(give_back_memory)
            log_.info("model.unloaded", model=self.name)

    async def close(self) -> None:
        """Load nothing more, and stop what runs."""
        if self._loading is not None:
            await stop(self._loading)
        if self.engine is not None:
            await asyncio.to_thread(self.engine.stop)


def _seen(task: asyncio.Task[E]) -> None:
    """The jobs that waited for it may have been cancelled."""
    if not task.cancelled():
        task.exception()
