"""The vocoder's engine: one thread that admits, schedules, runs and collects, step after step."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import numpy.typing as npt
import structlog

from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics
from vocoder.codecs.base import Codec, Samples, Work
from vocoder.engine.scheduler import Limits, Pick, schedule
from vocoder.engine.slots import Slots
from vocoder.engine.stream import Event, Failed, Finished, Listener, Piece, Stream

_IDLE_WAIT_S: Final = 0.5
_STAGE: Final = "vocoder"

log_ = structlog.get_logger(__name__)

Command = Callable[[], object]


class Stopped(Exception):
    """The engine stopped while the stream was in work."""


class Engine:
    """Decodes many streams in one batch after another. Public methods may be called anywhere.

    A stream is opened, fed, finished; its listener is called on the engine's thread with Pieces
    and then one Finished or Failed (nothing after a cancel).
    """

    def __init__(
        self,
        codec: Codec,
        *,
        slots: int,
        metrics: Metrics,
        limits: Limits | None = None,
        beat: Callable[[], None] = lambda: None,
        died: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = codec.spec
        self.metrics = metrics
        self.error: BaseException | None = None
        self._codec = codec
        self._slots: Slots[Stream] = Slots(slots)
        self._open_states = 0
        self._limits = limits or Limits()
        self._beat = beat
        self._died = died
        self._clock = clock
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="vocoder-engine", daemon=True)
        self._running = False
        self._over = False
        self._hand_over = threading.Lock()
        self._step_s: dict[tuple[int, int], deque[float]] = {}

    @property
    def idle(self) -> bool:
        """No slot and no decoder state is held."""
        return self._slots.idle and not self._open_states

    @property
    def step_table(self) -> dict[tuple[int, int], float]:
        """Median seconds of a step by (streams, frames of the longest piece), lately."""
        lately = {shape: median(list(times)) for shape, times in list(self._step_s.items())}
        return {**self._codec.measured_step_s, **lately}

    @property
    def step_seconds(self) -> dict[int, float]:
        """Median seconds of a step by streams, over the lengths that came up lately."""
        by_streams: dict[int, list[float]] = {}
        for (streams, _), seconds in self.step_table.items():
            by_streams.setdefault(streams, []).append(seconds)
        return {streams: median(times) for streams, times in by_streams.items()}

    @property
    def frame_seconds(self) -> float:
        """Seconds a frame costs in the best of the batches measured; 0 before any."""
        table = self.step_table
        return min((s / (n * max(1, frames)) for (n, frames), s in table.items()), default=0.0)

    def start(self) -> None:
        self._running = True
        self._thread.start()

    def stop(self) -> None:
        """Stop at the end of the current step; streams still open fail with Stopped."""
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def open(
        self,
        request: SpeechRequest,
        listener: Listener,
        *,
        skip: int = 0,
        frame: int = 0,
        mark: bytes = b"",
    ) -> None:
        """Begin a stream whose first `skip` samples were sent before; errors arrive as Failed.

        `frame` and `mark` are of the last Piece that was sent; the stream is then fed from
        `spec.replay_from(frame)` on. Raises Stopped.
        """
        if not self._put(lambda: self._open(request, listener, skip, frame, mark)):
            raise Stopped("the engine has stopped")

    def feed(self, request_id: str, codes: npt.NDArray[Any]) -> None:
        """The stream's next frames, [frames, codebooks] integers."""
        self._put(lambda: self._with(request_id, lambda stream: stream.feed(codes)))

    def finish(self, request_id: str) -> None:
        """No frame follows: decode what waits, and the tail."""
        self._put(lambda: self._with(request_id, _end))

    def playback(self, request_id: str, start_s: float) -> None:
        """Playback began, by this process's monotonic clock, at `start_s`."""
        self._put(lambda: self._with(request_id, lambda stream: stream.playback(start_s)))

    def cancel(self, request_id: str, then: Command = lambda: None) -> None:
        """Free the stream's slot, without an event; `then` is called when it is free."""
        if not self._put(lambda: self._cancel(request_id, then)):
            then()

    def _put(self, command: Command) -> bool:
        """Hand a command to the thread; False when it runs none any more."""
        with self._hand_over:
            if not self._over:
                self._commands.put(command)
            return not self._over

    def _run(self) -> None:
        try:
            while self._running:
                self.step()
        except Exception as error:
            log_.critical("engine.died", exc_info=error)
            self.error = error
        finally:
            self._end_all()
            if self.error is not None:
                self._died()

    def _end_all(self) -> None:
        """Nobody may wait for ever for an engine that is gone."""
        with self._hand_over:
            self._over = True
        while not self._commands.empty():
            if (command := self._commands.get()) is not None:
                _safely(command)
        for stream in self._slots:
            self._tell(stream, Failed(Stopped("the engine has stopped")))
            _safely(partial(self._close, stream))

    def step(self) -> None:
        """One iteration; waits for a command when there is nothing to do."""
        self._beat()
        self._admit()
        batch = self._schedule()
        if batch:
            self._collect(batch, self._compute(batch))
        self._export()

    # admit

    def _admit(self) -> None:
        """Run every waiting command; if nothing is ready, wait for one."""
        blocked = not any(stream.ready for stream in self._slots)
        try:
            command = self._commands.get(block=blocked, timeout=_IDLE_WAIT_S if blocked else None)
            while command is not None:
                command()
                command = self._commands.get_nowait()
            self._running = False
        except queue.Empty:
            return

    def _open(
        self, request: SpeechRequest, listener: Listener, skip: int, frame: int, mark: bytes
    ) -> None:
        begin = self.spec.replay_from(frame)
        try:
            self._slots.require(request.request_id)
            state = self._codec.open(request.seed, request.voice, begin)
        except Exception as error:
            listener(Failed(error))
            return
        self._open_states += 1
        stream = Stream(
            request,
            self.spec,
            state,
            listener,
            skip,
            self._clock(),
            resume_frame=frame,
            mark=mark if begin else b"",
        )
        self._slots.take(request.request_id, stream)

    def _with(self, request_id: str, action: Callable[[Stream], None]) -> None:
        """Do something to a stream that is still here; what goes wrong is its own failure."""
        stream = self._slots.get(request_id)
        if stream is None:
            return
        try:
            action(stream)
        except Exception as error:
            self._fail(stream, error)
            return
        if stream.empty:
            self._close(stream)
            self._tell(stream, Finished())

    def _cancel(self, request_id: str, then: Command) -> None:
        stream = self._slots.get(request_id)
        if stream is not None:
            self._close(stream)
        then()

    # schedule

    def _schedule(self) -> list[tuple[Stream, Work]]:
        waiting = [stream for stream in self._slots if stream.ready]
        picks = schedule([stream.as_ready() for stream in waiting], self._limits)
        for stream in waiting:
            stream.passed_over += 1
        return [self._take(pick) for pick in picks]

    def _take(self, pick: Pick) -> tuple[Stream, Work]:
        stream = self._slots.get(pick.key)
        if stream is None:
            raise AssertionError("picked a stream that holds no slot")
        stream.passed_over = 0
        return stream, stream.take(pick.frames)

    # run

    def _compute(self, batch: list[tuple[Stream, Work]]) -> list[Samples | Exception]:
        """One codec step. If it fails, each stream is tried alone: only the guilty one falls."""
        works = [work for _, work in batch]
        started = self._clock()
        try:
            samples = self._codec.decode(works)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            log_.exception("step.failed", streams=len(batch))
            return [self._compute([one])[0] for one in batch]
        self._measure(works, self._clock() - started)
        return list(samples)

    def _measure(self, works: list[Work], took_s: float) -> None:
        shape = len(works), max(len(work.codes) for work in works)
        self._step_s.setdefault(shape, deque(maxlen=64)).append(took_s)
        self.metrics.stage_duration.labels(_STAGE).observe(took_s)
        self.metrics.batch.labels(_STAGE).observe(len(works))

    # collect

    def _collect(
        self, batch: list[tuple[Stream, Work]], results: list[Samples | Exception]
    ) -> None:
        now = self._clock()
        for (stream, work), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                self._fail(stream, result)
                continue
            try:
                self._emit(stream, work, result, now)
            except Exception as error:
                self._fail(stream, error)

    def _emit(self, stream: Stream, work: Work, samples: Samples, now: float) -> None:
        first, deadline_s = not stream.sent, stream.deadline_s
        pcm = stream.collect(work, samples, now)
        if stream.restorable:
            self._codec.restore(stream.state, stream.mark)
        if self.spec.context_frames is not None:
            stream.note(self._codec.mark(stream.state))
        if len(pcm):
            if first:
                self.metrics.ttfp.labels(_STAGE).observe(now - stream.opened_s)
            else:
                self.metrics.slack.labels(_STAGE).observe(deadline_s - now)
            self._tell(stream, stream.piece(pcm))
        if work.final:
            self._close(stream)
            self._tell(stream, Finished())

    def _fail(self, stream: Stream, error: Exception) -> None:
        self._close(stream)
        self._tell(stream, Failed(error))

    def _tell(self, stream: Stream, event: Event) -> None:
        """A listener that is gone, its event loop closed say, harms nobody else."""
        try:
            stream.listener(event)
        except Exception as error:
            log_.warning("listener.failed", request_id=stream.request.request_id, error=str(error))
            self._close(stream)

    def _close(self, stream: Stream) -> None:
        if self._slots.release(stream.request.request_id) is None:
            return
        self._open_states -= 1
        self._codec.close(stream.state)
        if self._slots.idle:
            self._slots.check_idle(self._open_states)

    def _export(self) -> None:
        self.metrics.active.labels(_STAGE).set(len(self._slots))


def _end(stream: Stream) -> None:
    stream.ended = True


def _safely(command: Command) -> None:
    """On the way out one failure must not hide the first one, nor keep the others waiting."""
    try:
        command()
    except Exception as error:
        log_.warning("engine.unclean_end", error=str(error))


__all__ = ["Engine", "Event", "Failed", "Finished", "Listener", "Piece", "Stopped"]
