"""The talker's engine: one thread that admits, schedules, runs and collects, step after step."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from talker.engine.blocks import BlockAllocator
from talker.engine.chunker import ChunkSizes, due
from talker.engine.scheduler import Candidate, Limits, Policy, online
from talker.engine.stream import ChunkReady, Event, Failed, Finished, Listener, Stopped, Stream
from talker.models.base import Arrays, Attend, ModelSpec, Plan, Slice, TalkerModel
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics
from ttscommon.pace import Pace

_IDLE_WAIT_S: Final = 0.5
_SIZES: Final = ChunkSizes()
_LIMITS: Final = Limits()

log_ = structlog.get_logger(__name__)


class Caches(Protocol):
    """What holds the KV of a model; absent for models without caches."""

    def attend(self, batch: Sequence[Slice]) -> Mapping[str, Attend]: ...


class Engine:
    """Runs one model for many streams. Every method may be called from any thread.

    Listeners are called in the engine thread and must not block.
    """

    def __init__(
        self,
        model: TalkerModel,
        caches: Caches | None,
        *,
        blocks: int,
        slots: int,
        metrics: Metrics,
        sizes: ChunkSizes = _SIZES,
        limits: Limits = _LIMITS,
        policy: Policy = online,
        beat: Callable[[], None] = lambda: None,
        died: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._caches = caches
        self._allocator = BlockAllocator(blocks)
        self._slots = slots
        self.metrics = metrics
        self._sizes = sizes
        self._limits = limits
        self._policy = policy
        self._beat = beat
        self._died = died
        self.error: Exception | None = None
        self._clock = clock
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.streams: dict[Hashable, Stream] = {}
        self._thread = threading.Thread(target=self._run, name="talker-engine", daemon=True)
        self._running = False
        self._over = False
        self._hand_over = threading.Lock()
        self._pace = Pace(model.measured_round_s, clock)

    @property
    def spec(self) -> ModelSpec:
        """What the model serves."""
        return self._model.spec

    @property
    def idle(self) -> bool:
        """No stream, and no KV block in use."""
        return not self.streams and self._allocator.idle

    @property
    def step_seconds(self) -> dict[int, float]:
        """Seconds of a round by streams, prompts and rendering included: see Pace."""
        return self._pace.round_s

    @property
    def frame_seconds(self) -> float:
        """Nothing comes on top of a round."""
        return 0.0

    def start(self) -> None:
        self._running = True
        self._thread.start()

    def stop(self) -> None:
        """Stop at the end of the current step; streams still open fail with Stopped."""
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def open(self, request: SpeechRequest, restored: Arrays | None, listener: Listener) -> None:
        """Begin a stream, after the `restored` frames if any; errors arrive as Failed.

        Raises Stopped.
        """
        if not self._put(lambda: self._open(request, restored, listener)):
            raise Stopped("the engine has stopped")

    def feed(self, request_id: str, text: str, *, final: bool) -> None:
        """Later text of a stream."""
        self._put(lambda: self._feed(request_id, text, final))

    def acknowledge(self, request_id: str) -> None:
        """A ChunkReady was taken over by the bus; a stream far ahead of that pauses."""
        self._put(lambda: self._acknowledge(request_id))

    def playback(self, request_id: str, start_s: float) -> None:
        """Playback began, by this process's monotonic clock, at `start_s`."""
        self._put(lambda: self._playback(request_id, start_s))

    def cancel(self, request_id: str, then: Callable[[], None] = lambda: None) -> None:
        """Free the stream's slot and blocks, without an event; `then` is called when it is done."""
        if not self._put(lambda: self._cancel(request_id, then)):
            then()

    def _put(self, command: Callable[[], None]) -> bool:
        """Hand a command to the thread; False when it runs none any more."""
        with self._hand_over:
            if not self._over:
                self._commands.put(command)
            return not self._over

    def _run(self) -> None:
        try:
            while self._running:
                self._beat()
                self.step()
        except Exception as error:
            log_.exception("engine.died")
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
        for stream in list(self.streams.values()):
            _safely(partial(self._close, stream))
            _safely(partial(stream.listener, Failed(Stopped("the engine has stopped"))))

    def step(self) -> None:
        """One iteration; sleeps when there is nothing to do."""
        self._admit()
        began, open_ = self._clock(), len(self.streams)
        batch = self._schedule()
        if batch:
            self._compute(batch)
        self._collect()
        if batch:
            self._pace.add(open_, len(batch), self._clock() - began)
        self._export()

    # admit

    def _admit(self) -> None:
        """Run every waiting command; if no stream could step, wait for one."""
        blocked = not any(self._candidate_plan(s) for s in self.streams.values())
        try:
            command = self._commands.get(block=blocked, timeout=_IDLE_WAIT_S if blocked else None)
            while True:
                if command is None:
                    self._running = False
                    return
                command()
                command = self._commands.get_nowait()
        except queue.Empty:
            return

    def _open(self, request: SpeechRequest, restored: Arrays | None, listener: Listener) -> None:
        if request.request_id in self.streams or len(self.streams) >= self._slots:
            listener(Failed(RuntimeError("no slot for the request")))
            return
        try:
            stream = self._model.open(request)
            if restored is not None:
                stream.restore(restored)
        except Exception as error:
            listener(Failed(error))
            return
        opened = Stream(request, stream, listener, self._clock())
        opened.sent_frames = stream.frames
        self.streams[request.request_id] = opened

    def _feed(self, request_id: str, text: str, final: bool) -> None:
        if stream := self.streams.get(request_id):
            try:
                stream.model.feed(text, final=final)
            except Exception as error:
                self._fail(stream, error)

    def _acknowledge(self, request_id: str) -> None:
        if stream := self.streams.get(request_id):
            stream.credit += 1

    def _playback(self, request_id: str, start_s: float) -> None:
        if stream := self.streams.get(request_id):
            stream.playback_start_s = start_s

    def _cancel(self, request_id: str, then: Callable[[], None]) -> None:
        if request_id in self.streams:
            self._close(self.streams[request_id])
        then()

    # schedule

    def _candidate_plan(self, stream: Stream) -> Plan | None:
        return stream.model.plan() if stream.credit > 0 else None

    def _schedule(self) -> list[tuple[Stream, Slice]]:
        """Choose by policy, then find KV blocks; if there are none, most slack gives way."""
        now = self._clock()
        plans = {
            key: plan
            for key, stream in self.streams.items()
            if (plan := self._candidate_plan(stream)) is not None
        }
        chosen = self._policy([self._candidate(k, p, now) for k, p in plans.items()], self._limits)
        batch: list[tuple[Stream, Slice]] = []
        kept: set[Hashable] = set()
        for candidate in chosen:
            plan = plans[candidate.key]
            if plan.start == 0:
                self._allocator.release(candidate.key)
            kept.add(candidate.key)
            if self._reserve(candidate.key, plan.end, kept, now):
                stream = self.streams[candidate.key]
                table = self._allocator.table(candidate.key)
                batch.append((stream, Slice(stream.model, plan, table)))
        for key in plans:
            self.streams[key].passed_over += 1
        for stream, _ in batch:
            stream.passed_over = 0
        return batch

    def _candidate(self, key: Hashable, plan: Plan, now: float) -> Candidate:
        stream = self.streams[key]
        return Candidate(
            key=key,
            startup=stream.sent_chunks == 0 and stream.sent_frames == 0,
            slack_s=stream.slack_s(now, self._model.spec.frame_rate_hz),
            positions=plan.count,
            arrived_s=stream.arrived_s,
            passed_over=stream.passed_over,
            priority=stream.request.priority,
        )

    def _reserve(self, key: Hashable, positions: int, kept: set[Hashable], now: float) -> bool:
        while not self._allocator.reserve(key, positions):
            victims = [k for k in self.streams if k not in kept and self._allocator.table(k)]
            if not victims:
                return False
            rate = self._model.spec.frame_rate_hz
            victim = max(victims, key=lambda k: self.streams[k].slack_s(now, rate))
            self.streams[victim].model.evict()
            self._allocator.release(victim)
        return True

    # run

    def _compute(self, batch: list[tuple[Stream, Slice]]) -> None:
        """One model step. If it fails, each stream is tried alone: only the guilty one falls."""
        slices = [part for _, part in batch]
        started = self._clock()
        try:
            self._model.step(slices, self._caches.attend(slices) if self._caches else {})
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0][0], error)
                return
            log_.exception("step.failed", streams=len(batch))
            for one in batch:
                one[0].model.evict()
                self._allocator.release(one[0].request.request_id)
                self._retry_alone(one[0])
            return
        took = self._clock() - started
        self.metrics.stage_duration.labels("talker").observe(took)
        self.metrics.batch.labels("talker").observe(len(batch))

    def _retry_alone(self, stream: Stream) -> None:
        plan = stream.model.plan()
        if plan is None or not self._allocator.reserve(stream.request.request_id, plan.end):
            return  # it comes again in a later step
        table = self._allocator.table(stream.request.request_id)
        self._compute([(stream, Slice(stream.model, plan, table))])

    # collect

    def _collect(self) -> None:
        """Cut due chunks, render them all at once, hand them out, and close what is done."""
        now = self._clock()
        counts = [(stream, self._due(stream, now)) for stream in self.streams.values()]
        cuts = [(stream, count) for stream, count in counts if count]
        if cuts:
            self._emit(cuts)
        for stream in list(self.streams.values()):
            if stream.model.done and not stream.model.pending:
                self._close(stream)
                stream.listener(Finished())

    def _due(self, stream: Stream, now: float) -> int:
        if stream.credit < 1:
            return 0
        rate = self._model.spec.frame_rate_hz
        return due(
            self._sizes,
            pending=stream.model.pending,
            sent_chunks=stream.sent_chunks,
            last_frames=stream.last_frames,
            slack_s=stream.slack_s(now, rate),
            frame_rate_hz=rate,
            busy=self._pace.at(len(self.streams)) * rate if not stream.sent_chunks else 0.0,
            done=stream.model.done or stream.model.plan() is None,
        )

    def _emit(self, cuts: list[tuple[Stream, int]]) -> None:
        try:
            rendered = self._model.render([(stream.model, count) for stream, count in cuts])
        except Exception as error:
            if len(cuts) == 1:
                self._fail(cuts[0][0], error)
            else:
                log_.exception("render.failed", streams=len(cuts))
                for cut in cuts:
                    self._emit([cut])
            return
        now = self._clock()
        for (stream, count), part in zip(cuts, rendered, strict=True):
            if stream.first_sent_s is None:
                stream.first_sent_s = now - stream.sent_frames / self._model.spec.frame_rate_hz
                self.metrics.ttfp.labels("talker").observe(now - stream.arrived_s)
            stream.sent_frames += count
            stream.sent_chunks += 1
            stream.last_frames = count
            stream.credit -= 1
            stream.listener(ChunkReady(part.arrays, part.words))

    def _fail(self, stream: Stream, error: Exception) -> None:
        self._close(stream)
        stream.listener(Failed(error))

    def _close(self, stream: Stream) -> None:
        self.streams.pop(stream.request.request_id, None)
        self._allocator.release(stream.request.request_id)
        if not self.streams and not self._allocator.idle:
            raise AssertionError("KV blocks leaked")

    def _export(self) -> None:
        self.metrics.active.labels("talker").set(len(self.streams))
        self.metrics.kv_blocks.labels("free").set(self._allocator.free)
        self.metrics.kv_blocks.labels("used").set(self._allocator.total - self._allocator.free)


def _safely(command: Callable[[], None]) -> None:
    """On the way out one failure must not hide the first one, nor keep the others waiting."""
    try:
        command()
    except Exception as error:
        log_.warning("engine.unclean_end", error=str(error))


__all__ = ["Caches", "ChunkReady", "Engine", "Event", "Failed", "Finished", "Listener", "Stopped"]
