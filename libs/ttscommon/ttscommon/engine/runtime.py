"""The runtime of both engines: a mailbox, slots, a thread that turns, lists of events, an end."""

from __future__ import annotations

import math
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, get_args

import structlog

from ttscommon.engine.inflight import Command, InFlight, LaunchPath
from ttscommon.engine.pace import Contention
from ttscommon.engine.slots import OfflineShare, Slots
from ttscommon.process.metrics import Metrics

_IDLE_WAIT_S: Final = 0.5
_JOIN_S: Final = 10.0

log_ = structlog.get_logger(__name__)


class Stopped(Exception):
    """The engine stopped while the stream was in work: no fault of the request."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Everything is out; the slot is free."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream cannot go on; the others can. The slot is free."""

    error: Exception


class EngineStream(Protocol):
    """A request inside an engine. `slot` is the index of its row of state, -1 once it is closed."""

    slot: int

    @property
    def key(self) -> str: ...
    def playback(self, start_s: float) -> None: ...


EventT = TypeVar("EventT")
StreamT = TypeVar("StreamT", bound=EngineStream)
ValueT = TypeVar("ValueT")
Sink = Callable[[Sequence[tuple[str, Any]]], object]
# Hears on the engine's thread how long a step took, and of which streams it was.
OnStep = Callable[[float, Sequence[str]], object]


class Runtime(ABC, Generic[StreamT, EventT]):
    """Holds streams in slots and turns on a thread of its own, until it is stopped or dies.

    Public methods may be called from any thread. A subclass computes in `_turn`, and tells
    `on_step`, where it is set, of every step. What goes wrong with a stream is that stream's own
    failure; anything else ends the engine, and then every stream fails with Stopped.
    """

    def __init__(
        self,
        name: str,
        slots: Slots[StreamT],
        metrics: Metrics,
        beat: Callable[[], None] = lambda: None,
        died: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        contention: Contention | None = None,
    ) -> None:
        self.name = name
        self.metrics = metrics
        self.error: BaseException | None = None
        self.on_step: OnStep | None = None
        for path in get_args(LaunchPath):  # counters start at 0
            metrics.launches.labels(name, path)
        self._clock = clock
        self._contention = Contention(clock) if contention is None else contention
        self._offline = OfflineShare()
        self._slots = slots
        self._parked: dict[str, StreamT] = {}
        self._in_flight: InFlight[Any] = InFlight()
        self._beat = beat
        self._died = died
        self._sink: Sink = lambda events: None
        self._events: list[tuple[str, EventT | Finished | Failed]] = []
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"{name}-engine", daemon=True)
        self._hand_over = threading.Lock()
        self._running = False
        self._over = False
        self._blocked = False
        self._turned_s = -math.inf

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._slots)

    @property
    def capacity(self) -> int:
        """How many may be open."""
        return self._slots.capacity

    @property
    def idle(self) -> bool:
        """No stream, nothing in flight, and everything given back."""
        return self._slots.idle and not self._in_flight

    @property
    def waits(self) -> bool:
        """The last turn found nothing to do: `step` waits for a command first."""
        return self._blocked

    @property
    def wait_s(self) -> float:
        """For how long that is, if none comes.

        Reckoned from when that turn began: what it found not yet due may be due by now, and then no
        command tells so.
        """
        began = self._turned_s
        return max(0.0, began + self._found_nothing(began) - self._clock())

    @property
    def slowed(self) -> float:
        """How many times as long work takes just now as without other programs."""
        return self._contention.factor

    def listen(self, sink: Sink) -> None:
        """From now on `sink` gets each turn's events with their streams' keys, on the thread.

        It must not block. Streams whose events it does not take are closed.
        """
        self._sink = sink

    def start(self) -> None:
        self._running = True
        self._thread.start()

    def stop(self) -> None:
        """Stop at the end of the current turn; streams still open fail with Stopped."""
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=_JOIN_S)

    def playback(self, key: str, start_s: float) -> None:
        """Playback began, by this process's monotonic clock, at `start_s`."""
        self._put(lambda: self._with(key, lambda stream: stream.playback(start_s)))

    def cancel(self, key: str, then: Command = lambda: None) -> None:
        """Free the stream's slot, without an event; `then` is called when it is free."""

        def cancelled() -> None:
            self._close_key(key)
            then()

        if not self._put(cancelled):
            then()

    def unpark(self, key: str) -> None:
        """Give a stream that waits without a slot one again; there must be a free one."""
        self._put(lambda: self._return(key))

    def step(self, *, wait: bool = True) -> None:
        """One turn; waits for a command first when the last turn found nothing to do, unless the
        caller has waited.
        """
        self._beat()
        self._take_commands(wait and self._blocked)
        self._turned_s = self._clock()
        self._blocked = not self._turn()
        self._deliver()

    # for subclasses

    @abstractmethod
    def _turn(self) -> bool:
        """Compute; False if there is nothing to do until a command comes."""

    def _found_nothing(self, now: float) -> float:
        """For how long a turn that began now and found nothing to do would find nothing, if no
        command comes.
        """
        return self._offline.wait_s(now, _IDLE_WAIT_S)

    @abstractmethod
    def _freed(self, stream: StreamT) -> None:
        """The stream has just been closed: take back what else it holds."""

    def _put(self, command: Command) -> bool:
        """Hand a command to the thread; False when it runs none any more."""
        with self._hand_over:
            if not self._over:
                self._commands.put(command)
            return not self._over

    def _open(self, key: str, make: Callable[[], StreamT]) -> None:
        """Have the thread admit a new stream; errors arrive as Failed. Raises Stopped."""
        if not self._put(lambda: self._admit(key, make)):
            raise Stopped("the engine has stopped")

    def _launched(self, paths: Iterable[LaunchPath]) -> None:
        """Count how the parts of a launch are computed."""
        for path in paths:
            self.metrics.launches.labels(self.name, path).inc()

    def _stepped(self, took_s: float, streams: Iterable[StreamT]) -> None:
        """Tell of a step of these streams that has just ended."""
        self.metrics.stage_duration.labels(self.name).observe(took_s)
        if self.on_step is not None:
            self.on_step(took_s, [stream.key for stream in streams])

    def _emit(self, key: str, event: EventT | Finished | Failed) -> None:
        """Have the turn's list of events end with this one."""
        self._events.append((key, event))

    def _admit(self, key: str, make: Callable[[], StreamT]) -> None:
        """Give a new stream a slot; what goes wrong is its own failure."""
        try:
            self._slots.require(key)
            stream = make()
        except Exception as error:
            self._emit(key, Failed(error))
            return
        stream.slot = self._slots.take(key, stream)

    def _with(self, key: str, action: Callable[[StreamT], object]) -> None:
        """Do something to a stream that is still here; what goes wrong is its own failure."""
        if (stream := self._slots.get(key) or self._parked.get(key)) is not None:
            try:
                action(stream)
            except Exception as error:
                self._fail(stream, error)

    def _each(
        self, action: Callable[[StreamT], ValueT], streams: Iterable[StreamT] | None = None
    ) -> list[tuple[StreamT, ValueT]]:
        """What `action` gives for every open stream, or for `streams`, that it does not fail."""
        given = []
        for stream in self._slots if streams is None else streams:
            try:
                given.append((stream, action(stream)))
            except Exception as error:
                self._fail(stream, error)
        return given

    def _fail(self, stream: StreamT, error: Exception) -> None:
        if stream.slot >= 0 or self._parked.pop(stream.key, None) is not None:
            self._close(stream)
            self._emit(stream.key, Failed(error))

    def _fail_all(self, rows: Iterable[tuple[tuple[StreamT, *tuple[Any, ...]], Exception]]) -> None:
        """The rows of a launch that failed alone; each begins with its stream."""
        for (stream, *_), error in rows:
            self._fail(stream, error)

    def _finish(self, stream: StreamT) -> None:
        self._close(stream)
        self._emit(stream.key, Finished())

    def _park(self, stream: StreamT) -> None:
        """Have the stream wait without a slot, for `unpark` or `cancel`."""
        self._close(stream)
        self._parked[stream.key] = stream

    def _return(self, key: str) -> None:
        if (stream := self._parked.pop(key, None)) is not None:
            self._admit(key, lambda: stream)

    def _close_key(self, key: str) -> None:
        self._parked.pop(key, None)
        if (stream := self._slots.get(key)) is not None:
            self._close(stream)

    def _close(self, stream: StreamT) -> None:
        """Free the slot; its row comes back when no launch in flight may write it."""
        if (released := self._slots.release(stream.key)) is None:
            return
        stream.slot = -1
        self._in_flight.release(lambda: self._slots.give_back(released[1]))
        self._freed(stream)
        if not len(self._slots) and not self._in_flight and not self.idle:
            raise AssertionError(f"the {self.name} has no stream, and something is still held")

    # the thread

    def _run(self) -> None:
        try:
            while self._running:
                self.step()
        except Exception as error:
            log_.critical("engine.died", engine=self.name, exc_info=error)
            self.error = error
        finally:
            self._end()
            if self.error is not None:
                self._died()

    def _take_commands(self, wait: bool) -> None:
        """Run every waiting command."""
        try:
            command = self._commands.get(wait, self.wait_s if wait else None)
            while command is not None:
                command()
                command = self._commands.get_nowait()
            self._running = False
        except queue.Empty:
            return

    def _deliver(self) -> None:
        """Hand the turn's events over. A sink that is gone harms only the streams it would have."""
        if not self._events:
            return
        events, self._events = self._events, []
        try:
            self._sink(events)
        except Exception as error:
            log_.warning("events.undelivered", engine=self.name, error=str(error))
            for key in {key for key, _ in events}:
                self._close_key(key)

    def _end(self) -> None:
        """No caller may wait for an engine that is gone."""
        with self._hand_over:
            self._over = True
        while not self._commands.empty():
            if (command := self._commands.get()) is not None:
                self._safely(command)
        while self._in_flight:
            self._in_flight.settle()
        for stream in [*self._slots, *self._parked.values()]:
            self._safely(lambda: self._fail(stream, Stopped("the engine has stopped")))  # noqa: B023
        self._deliver()

    def _safely(self, command: Command) -> None:
        """On the way out one failure must not hide the first, nor keep the others waiting."""
        try:
            command()
        except Exception as error:
            log_.warning("engine.unclean_end", engine=self.name, error=str(error))
