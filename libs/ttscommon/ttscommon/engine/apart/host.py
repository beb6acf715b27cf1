"""An engine in this process, for the edge in another."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar

from prometheus_client.metrics_core import Metric

from ttscommon.engine.apart.line import EngineLine, EngineState, LineClosed, portable
from ttscommon.engine.interface import StageEngine
from ttscommon.engine.runtime import Failed, Stopped

# Gauges of an engine are read by its edge for a report a second.
_TELL_S: Final = 0.25
_METRICS_TIMEOUT_S: Final = 2.0


E = TypeVar("E", bound=StageEngine)


class EngineHost(ABC, Generic[E]):
    """Holds an edge's line until there is an engine for it, and the engine for its line.

    problems: why the edge does not take work just now; none once it does.
    """

    def __init__(self, connection: Connection, heard: Callable[[], object]) -> None:
        """heard: called whenever the edge says that it is alive; on a thread of the line's."""
        self.problems: tuple[str, ...] = ("starting",)
        self._heard = heard
        self._turns = 0
        self._over = threading.Event()
        self._line = EngineLine(connection, self._handlers())
        self._line.start()

    def beat(self) -> None:
        """The engine turned."""
        self._turns += 1

    def serve(self, engine: E) -> None:
        """From now on the edge has this engine, which is built and not started."""
        self._engine = engine
        engine.listen(self._deliver)
        engine.start()
        self._cast("built", self.facts(engine))
        threading.Thread(target=self._tell, name="engine-state", daemon=True).start()

    def died(self, error: BaseException | None) -> None:
        """What killed the engine; its streams' ends were told before."""
        told = portable(error) if isinstance(error, Exception) else RuntimeError(repr(error))
        self._cast("died", told)

    def metrics(self) -> Sequence[Metric]:
        """The edge's; nothing while it cannot answer."""
        try:
            found: Sequence[Metric] = self._line.call("metrics", timeout_s=_METRICS_TIMEOUT_S)
        except (LineClosed, TimeoutError):
            return ()
        return found

    def close(self) -> None:
        self._over.set()
        self._line.close()

    # for subclasses

    @abstractmethod
    def facts(self, engine: E) -> Any:
        """What the edge knows of the engine from the start."""

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        """What the edge asks of the engine, beside what it asks of any."""
        return {}

    def open(self, key: str, opening: Callable[[], object]) -> None:
        """Open a stream, which fails like any other where the engine has stopped."""
        try:
            opening()
        except Exception as error:  # noqa: BLE001 -- becomes the stream's end
            self._deliver([(key, Failed(error))])

    def _handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "alive": self._alive,
            "playback": lambda key, start_s: self._engine.playback(key, start_s),
            "cancel": self._cancel,
            "unpark": lambda key: self._engine.unpark(key),
            "trace": self._trace,
            **self.handlers(),
        }

    def _alive(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        self._heard()

    def _cancel(self, key: str, number: int) -> None:
        self._engine.cancel(key, lambda: self.then(number))

    def then(self, number: int, *args: Any) -> None:
        """What the edge waited for under this number has happened."""
        self._cast("then", number, args)

    def _trace(self) -> None:
        self._engine.on_step = lambda took_s, keys: self._cast("step", took_s, list(keys))

    def _deliver(self, events: Sequence[tuple[str, Any]]) -> None:
        self._line.cast("events", [(key, _portable_event(event)) for key, event in events])

    def _tell(self) -> None:
        while not self._over.wait(_TELL_S):
            self._cast("state", self._state())

    def _state(self) -> EngineState:
        engine = self._engine
        return EngineState(
            engine.step_seconds,
            engine.frame_seconds,
            engine.kv_positions,
            engine.slowed,
            self._turns,
        )

    def _cast(self, name: str, *args: Any) -> None:
        """Say something to an edge that may be gone; its process's end ends this one's."""
        try:
            self._line.cast(name, *args)
        except LineClosed:
            return


def _portable_event(event: Any) -> Any:
    if isinstance(event, Failed) and not isinstance(event.error, Stopped):
        return Failed(portable(event.error))
    return event
