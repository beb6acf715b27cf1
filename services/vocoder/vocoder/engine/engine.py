"""The vocoder's engine: admit, schedule, launch, collect, emit, turn after turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Final

from ttscommon.engine.inflight import launch_bisected
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Runtime
from ttscommon.engine.slots import Slots
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import VOCODER
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Due, Work
from vocoder.engine.scheduler import BatchLimits, Ready, schedule
from vocoder.engine.stream import DecodedAudio, Resume, Stream

_STAGE: Final = VOCODER.name
_LATELY: Final = 64
_FROM_THE_START: Final = Resume()

Batch = Sequence[tuple[Stream, Work]]


class Engine(Runtime[Stream, DecodedAudio]):
    """Decodes many streams in one batch after another. Public methods may be called anywhere.

    A stream is opened, fed, finished; its events are Pieces and then one Finished or Failed
    (nothing after a cancel).
    """

    def __init__(
        self,
        codec: Codec,
        *,
        slots: int,
        metrics: Metrics,
        limits: BatchLimits | None = None,
        beat: Callable[[], None] = lambda: None,
        died: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        contention: Contention | None = None,
    ) -> None:
        spare = slots if codec.depth else 0
        super().__init__(_STAGE, Slots(slots, spare), metrics, beat, died, clock, contention)
        self.spec: CodecSpec = codec.spec
        self._codec = codec
        self._open_states = 0
        self._limits = limits or BatchLimits()
        self._step_s: dict[tuple[int, int], deque[float]] = {}
        self._collected_s = 0.0
        self._heard = True
        self._recomputed = 0
        if limit := codec.state_use.memory_bytes:
            metrics.state_bytes.labels("limit").set(limit)
            self._tell_of_states()

    @property
    def idle(self) -> bool:
        return super().idle and not self._open_states

    @property
    def step_table(self) -> dict[tuple[int, int], float]:
        """Median seconds of a step by (streams, frames of the longest piece), lately, without what
        it had to wait for other programs.
        """
        lately = {shape: median(list(times)) for shape, times in list(self._step_s.items())}
        return {**self._codec.measured_step_s, **lately}

    @property
    def step_seconds(self) -> dict[int, float]:
        """Median seconds of a step by streams, over the lengths that came up lately, as long as it
        takes just now beside other programs.
        """
        by_streams: dict[int, list[float]] = {}
        for (streams, _), seconds in self.step_table.items():
            by_streams.setdefault(streams, []).append(seconds)
        factor = self._contention.factor
        return {streams: factor * median(times) for streams, times in by_streams.items()}

    @property
    def frame_seconds(self) -> float:
        """Seconds a frame costs in the best of the batches measured, beside whatever else the
        machine does just now; 0 before any.
        """
        table = self.step_table
        best = min((s / (n * max(1, frames)) for (n, frames), s in table.items()), default=0.0)
        return self._contention.factor * best

    @property
    def kv_positions(self) -> tuple[int, int]:
        """Of states that grow with their streams, in frames; see Codec.room."""
        return self._codec.room

    @property
    def conditioned(self) -> bool:
        """Whether `prefix` or `conditions` ever gives anything."""
        return self._codec.conditioned

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """What `open` needs of the request's reference, from what was derived of it."""
        return self._codec.prefix(request, reference)

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """What `open` needs of it besides; see Codec.conditions."""
        return self._codec.conditions(request, reference)

    def open(
        self,
        request: SpeechRequest,
        resume: Resume = _FROM_THE_START,
        prefix: Arrays | None = None,
        conditions: Arrays | None = None,
    ) -> None:
        """Begin a stream; it is then fed from `first_frame` on. Errors arrive as Failed.

        Raises Stopped.
        """
        make = partial(self._stream, request, resume, prefix, conditions)
        self._open(request.request_id, make)

    def feed(self, key: str, frames: Arrays) -> None:
        """The stream's next frames, an array by field."""
        self._put(lambda: self._with(key, lambda stream: self._feed(stream, frames)))

    def finish(self, key: str) -> None:
        """No frame follows: decode what waits, and what is held back."""
        self._put(lambda: self._with(key, self._ended))

    def _feed(self, stream: Stream, frames: Arrays) -> None:
        if not stream.has_frames:
            stream.fed_s = self._clock()
        stream.feed(frames)

    def _stream(
        self,
        request: SpeechRequest,
        resume: Resume,
        prefix: Arrays | None,
        conditions: Arrays | None,
    ) -> Stream:
        stream = Stream(request, self.spec, None, self._clock(), resume, prefix)
        stream.state = self._codec.open(request, stream.begin)
        if self.spec.solves:
            stream.solves = partial(self._due, stream)
        if conditions is not None:
            self._codec.tell(stream.state, conditions)
        self._open_states += 1
        if prefix is not None:
            self._codec.go_on_from(stream.state, prefix)
        return stream

    def _due(self, stream: Stream, frames: Arrays, ended: bool) -> Due | None:
        return self._codec.due(stream.state, frames, ended=ended)

    def _ended(self, stream: Stream) -> None:
        stream.finish()
        if stream.empty:
            self._finish(stream)

    # turn

    def _turn(self) -> bool:
        self._contention.measure(counts=self._heard)
        launched = self._launch(self._schedule())
        collected = False
        while len(self._in_flight) > (self._codec.depth if launched else 0):
            self._collect()
            collected = True
        self.metrics.active.labels(_STAGE).set(len(self._slots))
        self._tell_of_states()
        if not (launched or collected):
            self._contention.idle()
        return launched or collected

    def _schedule(self) -> list[tuple[Stream, Work]]:
        now = self._clock()
        waiting, limits = self._waiting(now)
        self._heard = not any(one.offline for one in waiting)
        batch = []
        for pick in schedule(waiting, limits):
            stream = self._slots.get(pick.key)
            assert stream is not None
            try:
                if mark := stream.mark_due:
                    self._codec.restore(stream.state, mark)
                batch.append((stream, stream.take(pick.frames)))
            except Exception as error:
                self._fail(stream, error)
        return batch

    def _waiting(self, now: float) -> tuple[list[Ready], BatchLimits]:
        """What could be decoded, and how much of it: streams without listeners while no other
        could be, and none of them soon.
        """
        heard = [stream for stream in self._slots if not stream.request.offline]
        if heard:
            self._offline.heard(now)
        ready = [stream.as_ready(now) for stream in heard if stream.ready]
        if ready or len(heard) == len(self._slots):
            return ready, self._limits
        tuning = self._offline.tuning
        if self._offline.pause_s(now) > 0.0:
            return [], self._limits
        if any(stream.awaits(tuning.slack_s, tuning.first_s, now) for stream in heard):
            return [], self._limits
        others = [s.as_ready(now) for s in self._slots if s.request.offline and s.ready]
        return others, self._short() if self._offline.expects(now) else self._limits

    def _short(self) -> BatchLimits:
        """What a step may hold at whose end a new listener's may begin."""
        frames = min(self._offline.size, self._limits.frames)
        each = min(frames, self._limits.stream_frames)
        return replace(self._limits, frames=frames, stream_frames=each)

    def _launch(self, batch: Batch) -> bool:
        """Begin to decode the batch. If that fails, only the stream to blame falls."""
        if not batch:
            return False
        launched, failed = launch_bisected(batch, self._start)
        self._fail_all(failed)
        for part, (started, ticket) in launched:
            self._in_flight.launched((part, started, ticket))
            self._launched(self._codec.paths(ticket))
        return True

    def _start(self, batch: Batch) -> tuple[float, Any]:
        return self._clock(), self._codec.launch([work for _, work in batch])

    def _collect(self) -> None:
        batch, started, ticket = self._in_flight.oldest()
        with self._contention.elsewhere() if self._codec.depth else nullcontext():
            results = self._codec.collect(ticket)
        self._in_flight.settle()
        offline = batch[0][0].request.offline  # then all of them are
        now, waited_s = self._clock(), self._contention.measure(counts=not offline)
        took_s = now - max(started, self._collected_s)
        if offline:
            size = len(batch) * max(len(work) for _, work in batch)
            self._offline.stepped(now, took_s - waited_s, size)
        self._measure(batch, took_s, waited_s)
        self._collected_s = now
        self._measure_segments(batch, results, max(0.0, now - started - waited_s))
        for (stream, work), decoded in zip(batch, results, strict=True):
            if stream.slot < 0:
                continue
            try:
                self._send(stream, work, decoded, now)
            except Exception as error:
                self._fail(stream, error)

    def _measure(self, batch: Batch, took_s: float, waited_s: float) -> None:
        shape = len(batch), max(len(work) for _, work in batch)
        worked_s = max(0.0, took_s - waited_s)
        if not self.spec.prepares:
            self._step_s.setdefault(shape, deque(maxlen=_LATELY)).append(worked_s)
        self.metrics.batch.labels(_STAGE).observe(len(batch))
        self._stepped(took_s, (stream for stream, _ in batch))

    def _measure_segments(self, batch: Batch, results: Sequence[Decoded], worked_s: float) -> None:
        """What frames cost that come by the segment: as much of it as a step would hold.

        What it costs to decode the segment before counts with it.
        """
        for (stream, work), decoded in zip(batch, results, strict=True):
            if work.segment is None and not self.spec.solver_steps:
                continue
            stream.preparing_s += worked_s / len(batch)
            if work.segment is not None and decoded.prepared and rows(work.segment):
                count = rows(work.segment)
                size = min(count, self._limits.stream_frames)
                took_s = stream.preparing_s * size / count
                self._step_s.setdefault((1, size), deque(maxlen=_LATELY)).append(took_s)
                stream.preparing_s = 0.0

    def _send(self, stream: Stream, work: Work, decoded: Decoded, now: float) -> None:
        first, deadline_s, before_s = not stream.sent, stream.deadline_s, stream.position_s
        pcm = stream.collect(work, decoded, now)
        if len(pcm) and not stream.request.offline:
            if first and not stream.resume.skip:
                self.metrics.ttfp.labels(_STAGE).observe(now - stream.opened_s)
            elif not first:
                slack_s, given_s = deadline_s - now, deadline_s - stream.fed_s
                self.metrics.chunk(_STAGE, slack_s, before_s, given_s=given_s)
        if len(pcm := stream.gather(pcm, now)):
            self._emit(stream.key, stream.piece(pcm))
        if work.final and work.segment is None:
            self._finish(stream)

    def _tell_of_states(self) -> None:
        """What streams' states take, of a codec whose states grow; nothing of any other."""
        use = self._codec.state_use
        if use.memory_bytes:
            self.metrics.state_bytes.labels("used").set(use.held_bytes)
            self.metrics.recomputations.labels().inc(use.recomputed - self._recomputed)
            self._recomputed = use.recomputed

    def _freed(self, stream: Stream) -> None:
        self._in_flight.release(partial(self._close_state, stream))

    def _close_state(self, stream: Stream) -> None:
        self._open_states -= 1
        self._codec.close(stream.state)
