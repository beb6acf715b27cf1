"""The edge of a stage: its jobs, logs and leases, for an engine in another process."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, NoReturn, Self, TypeVar

from prometheus_client.metrics_core import Metric

from ttscommon.engine.apart.line import EngineLine, EngineState, LineClosed
from ttscommon.engine.runtime import Failed, Finished, OnStep, Sink, Stopped
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service, launch
from ttscommon.process.settings import StageSettings
from ttscommon.process.tasks import stop

_ALIVE_S: Final = 0.5
_GONE: Final = "the engine's process has ended"

S = TypeVar("S", bound=StageSettings)
FactsT = TypeVar("FactsT")


class EdgeEngine(Generic[FactsT]):
    """The engine as its edge sees it. Public methods may be called from any thread.

    Streams that are open when the engine's process ends fail with Stopped, as they do when an
    engine in this process dies.
    """

    metrics: Metrics
    facts: FactsT

    def __init__(self, connection: Connection) -> None:
        self.error: BaseException | None = None
        self.step_seconds: dict[int, float] = {}
        self.frame_seconds, self.kv_positions, self.slowed = 0.0, (0, 0), 1.0
        self._turns = 0
        self._sink: Sink = lambda events: None
        self._keys: set[str] = set()
        self._waiting: dict[int, Callable[..., object]] = {}
        self._numbers = itertools.count()
        self._built, self._gone = threading.Event(), threading.Event()
        self._on_step: OnStep | None = None
        self._beat: Callable[[], None] = lambda: None
        self._died: Callable[[], object] = lambda: None
        handlers: Mapping[str, Callable[..., Any]] = {
            "built": self._take_facts,
            "events": self._deliver,
            "then": self._then,
            "state": self._take_state,
            "step": self._step,
            "died": self._take_error,
            "metrics": self._collect,
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line = EngineLine(connection, handlers, self._closed, self._soon)
        self._line.start()

    def build(
        self, metrics: Metrics, *, beat: Callable[[], None], died: Callable[[], object]
    ) -> Self:
        """Wait until the engine is there; see stage.Build. Raises Stopped."""
        self.metrics = metrics
        self._beat, self._died = beat, died
        self._built.wait()
        if self._gone.is_set():
            raise Stopped(_GONE)
        return self

    @property
    def on_step(self) -> OnStep | None:
        return self._on_step

    @on_step.setter
    def on_step(self, heard: OnStep | None) -> None:
        self._on_step = heard
        if heard is not None:
            self.say("trace")

    def listen(self, sink: Sink) -> None:
        """From now on `sink` gets each turn's events with their streams' keys; see Runtime. To be
        called on the event loop.
        """
        self._sink = sink
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It ends with the process that it is in."""

    def playback(self, key: str, start_s: float) -> None:
        """Playback began at `start_s` of the monotonic clock, which both processes share."""
        self.say("playback", key, start_s)

    def cancel(self, key: str, then: Callable[[], object] = lambda: None) -> None:
        self._keys.discard(key)
        self.ask("cancel", key, then=then)

    def unpark(self, key: str) -> None:
        self.say("unpark", key)

    def alive(self, problems: tuple[str, ...]) -> None:
        """Tell the engine's process that this edge turns, and why it is not ready."""
        self.say("alive", problems)

    # for subclasses

    def say(self, name: str, *args: Any) -> None:
        """One that is gone hears nothing, and its streams have failed."""
        with suppress(LineClosed):
            self._line.cast(name, *args)

    def ask(self, name: str, *args: Any, then: Callable[..., object]) -> None:
        """Have `then` called, on the line's thread, with what the engine says when it is done.
        Without anything if its process is gone.
        """
        self._waiting[number := next(self._numbers)] = then
        self.say(name, *args, number)
        if self._gone.is_set():
            self._then(number, ())

    def call(self, name: str, *args: Any) -> Any:
        """What the engine's process answers; raises what it raised, or Stopped."""
        try:
            return self._line.call(name, *args)
        except LineClosed as error:
            raise Stopped(_GONE) from error

    def opened(self, key: str, name: str, *args: Any) -> None:
        """Open a stream; raises Stopped."""
        if self._gone.is_set():
            raise Stopped(_GONE)
        self._keys.add(key)
        self.say(name, *args)
        if self._gone.is_set():
            self._fail({key})

    def _soon(self, flush: Callable[[], None]) -> None:
        """What a turn of the event loop says travels together, and is read together there."""
        try:
            if self._loop is None:
                flush()
            else:
                self._loop.call_soon_threadsafe(flush)
        except RuntimeError:  # the event loop is closed
            flush()

    # the line's thread

    def _take_facts(self, facts: FactsT) -> None:
        self.facts = facts
        self._built.set()

    def _deliver(self, events: Sequence[tuple[str, Any]]) -> None:
        self._keys -= {key for key, event in events if isinstance(event, Finished | Failed)}
        with suppress(RuntimeError):  # the event loop is closed, and no job is left
            self._sink(events)

    def _then(self, number: int, args: tuple[Any, ...]) -> None:
        if (then := self._waiting.pop(number, None)) is not None:
            then(*args)

    def _take_state(self, state: EngineState) -> None:
        self.step_seconds, self.frame_seconds, self.kv_positions, self.slowed, turns = state
        turned, self._turns = turns > self._turns, turns
        if turned:
            self._beat()

    def _step(self, took_s: float, keys: Sequence[str]) -> None:
        if self._on_step is not None:
            self._on_step(took_s, keys)

    def _take_error(self, error: Exception) -> None:
        self.error = error
        self._stop_service()

    def _collect(self) -> list[Metric]:
        return list(self.metrics.registry.collect()) if hasattr(self, "metrics") else []

    def _closed(self) -> None:
        """The engine's process is gone, or is going."""
        self.error = self.error or Stopped(_GONE)
        self._gone.set()
        self._built.set()
        self._fail(set(self._keys))
        for number in list(self._waiting):
            self._then(number, ())
        self._stop_service()

    def _stop_service(self) -> None:
        with suppress(RuntimeError):  # its event loop is closed: it has stopped
            self._died()

    def _fail(self, keys: set[str]) -> None:
        if keys:
            self._deliver([(key, Failed(Stopped(_GONE))) for key in keys])


def run_edge(
    name: str,
    settings_type: type[S],
    edge: Callable[[Connection], EdgeEngine[Any]],
    serve: Callable[[Service, S, Any], Awaitable[None]],
) -> NoReturn:
    """The whole of an edge's process, whose argument is the descriptor of its line."""
    engine = edge(Connection(int(sys.argv[1])))

    async def main(service: Service, settings: S) -> None:
        telling = asyncio.create_task(_tell(service, engine), name="alive")
        try:
            await serve(service, settings, lambda own: engine.build)
        finally:
            await stop(telling)

    launch(name, settings_type, main)


async def _tell(service: Service, engine: EdgeEngine[Any]) -> None:
    """Say that this edge's loops turn, and whether it is ready, until it is cancelled."""
    while True:
        if service.live().ok:
            engine.alive(service.ready().problems)
        await asyncio.sleep(_ALIVE_S)
