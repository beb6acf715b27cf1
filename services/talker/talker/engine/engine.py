"""The talker's engine: admit, plan, launch, collect, emit, turn after turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Final

from talker.engine.draft_lengths import DraftLengths
from talker.engine.gauges import STAGE, Gauges
from talker.engine.placement import CacheSpace
from talker.engine.scheduler import (
    Company,
    Policy,
    StepLimits,
    candidates,
    online,
    positions,
)
from talker.engine.stream import Stream
from ttscommon.engine.inflight import launch_bisected
from ttscommon.engine.pace import Contention, RoundTimes
from ttscommon.engine.runtime import Runtime
from ttscommon.engine.slots import Slots
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate, cut, rows
from ttsfamilies.base.talker.base import Family, ModelSpec, Prepared
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.parts import Parts
from ttsfamilies.base.talker.streams import CutShort, Results, Row, Runner, Taken

_LIMITS: Final = StepLimits()
_STEPS_KEPT: Final = 8
# An engine with so few listeners, who need such a share of real time, can spare some for the other.
_FEW, _CALM = 4, 0.5

Launched = tuple[Stream, Row, int]


class Engine(Runtime[Stream, Taken | CutShort]):
    """Runs one model for many streams. Public methods may be called from any thread."""

    def __init__(
        self,
        family: Family,
        *,
        slots: int,
        metrics: Metrics,
        blocks: int = 0,
        depth: int = 0,
        runner: Runner | None = None,
        sizes: ChunkSizes | None = None,
        limits: StepLimits = _LIMITS,
        policy: Policy = online,
        draft_lengths: Callable[..., DraftLengths] = DraftLengths,
        beat: Callable[[], None] = lambda: None,
        died: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        contention: Contention | None = None,
        keep: int | None = None,
    ) -> None:
        """`blocks`: of KV cache, for a model that has one. `depth`: see Runner.

        keep: blocks of prompts that later requests may begin with (see TalkerStream.prefix); None
        for as many as are free, 0 for none, and then nothing is shared.

        runner: one that is ready, and has slots and blocks enough; otherwise one is made here.
        """
        spare = slots if depth else 0
        super().__init__(STAGE, Slots(slots, spare), metrics, beat, died, clock, contention)
        self.spec: ModelSpec = family.spec
        self.family = family
        self._gauges = Gauges(metrics)
        kv_blocks = blocks if self.spec.caches else 0
        self._room = CacheSpace(kv_blocks, self.spec.max_positions, self._in_flight.release, keep)
        if runner is None:
            runner = family.runner(self._slots.rows, kv_blocks, depth)
            runner.record(min(slots, limits.streams), limits.positions)
        self._runner: Runner = runner
        self._sizes = sizes or self.spec.chunks.sizes(self.spec.frame_rate_hz)
        self._limits = limits
        self._policy, self._shares = policy, keep != 0
        self._pace = RoundTimes(family.measured_round_s, clock)
        # A device is not waited for in this way; it computes beside.
        together = replace(limits, company=0) if self._runner.depth else limits
        self._company = Company(together, self.spec.frame_rate_hz)
        self._rounds = 1 if self._runner.depth else self.spec.rounds
        self._draft_lengths = draft_lengths(self._runner.width, self._gauges.gained)
        self._collected_s = 0.0
        # Seconds of a frame in the last steps that had no prompt in them.
        self._step_s: deque[float] = deque(maxlen=_STEPS_KEPT)
        # On a processor only what the thread itself ran says which width is cheapest.
        self._step_clock = time.thread_time if clock is time.monotonic else clock
        self._stepping_s = 0.0
        # Positions that listeners' streams will have taken, and that others hold.
        self._expected = self._yielding = 0

    @property
    def idle(self) -> bool:
        return super().idle and self._room.idle

    @property
    def step_seconds(self) -> dict[int, float]:
        """Seconds of a round by streams, prompts and rendering included: see RoundTimes. As long as
        it takes just now, beside whatever else the machine does.
        """
        factor = self._contention.factor
        return {streams: factor * seconds for streams, seconds in self._pace.round_s.items()}

    frame_seconds: float = 0.0  # nothing comes on top of a round

    @property
    def kv_positions(self) -> tuple[int, int]:
        """Positions of the KV cache that are free, and all of them; zeros without a cache.

        What open streams will still take, by their prompts and texts, is not free. What streams
        without listeners hold is: they give it up for one with a listener.
        """
        free, total = self._room.blocks
        left = total * BLOCK_POSITIONS - self._expected
        given = free * BLOCK_POSITIONS + self._yielding
        return max(0, min(given, left)), total * BLOCK_POSITIONS

    def open(
        self,
        prepared: Prepared,
        restored: Arrays | None = None,
        units: Sequence[Any] = (),
        *,
        final: bool = False,
    ) -> None:
        """Begin a stream, after the `restored` frames if any, with its first units of text.

        Errors arrive as Failed. Raises Stopped.
        """
        key = prepared.request.request_id
        self._open(key, partial(self._stream, prepared, restored, units, final))

    def feed(self, key: str, units: Sequence[Any], *, final: bool) -> None:
        """Later text of a stream, as `Prepared.read` gives it."""
        self._put(lambda: self._with(key, lambda stream: self._feed(stream, units, final)))

    def expect(self) -> None:
        """A stream with a listener will be opened in a moment."""
        self._put(lambda: self._offline.coming(self._clock()))

    def acknowledge(self, key: str) -> None:
        """A chunk was taken over by the bus; a stream far ahead of that pauses."""
        self._put(lambda: self._with(key, Stream.acknowledge))

    def park(self, key: str, then: Callable[[bool], object]) -> None:
        """Free the slot and the blocks of a stream that has spoken all of its text until `unpark`.

        `then` hears on the engine's thread whether it was: not before its last frame is out.
        """

        def parked() -> None:
            stream = self._slots.get(key)
            if waits := stream is not None and stream.waits_for_text:
                stream.evict()
                self._park(stream)
            then(waits)

        if not self._put(parked):
            then(False)

    def _feed(self, stream: Stream, units: Sequence[Any], final: bool) -> None:
        if stream.waits_for_text:
            stream.fed_s = self._clock()
        stream.feed(units, final=final)

    def _stream(
        self, prepared: Prepared, restored: Arrays | None, units: Sequence[Any], final: bool
    ) -> Stream:
        model = Parts(self.family, prepared)
        if restored is not None:
            model.restore(restored)
        rate, starved_s = self.spec.frame_rate_hz, self._limits.starved_s
        stream = Stream(prepared.request, model, rate, self._clock(), starved_s)
        stream.lag_frames = self.spec.lag_frames
        stream.lacking = self._sizes.first(0.0)  # until it has frames that may be due
        stream.feed(units, final=final)
        return stream

    # turn

    def _turn(self) -> bool:
        began = self._clock()
        opened = sum(not stream.offline for stream in self._slots)
        chosen = self._plan(began)
        self._launch(chosen)
        gained = -1
        while len(self._in_flight) > (self._runner.depth if chosen else 0):
            gained = max(gained, 0) + self._collect()
        self._send_due()
        self._gauges.room(len(self._slots), self._room.blocks, self._room.kept)
        self._expected, self._yielding = positions(self._slots, self._room.table)
        if not chosen and gained < 0:
            self._contention.idle()
            return False
        offline = sum(stream.offline for stream in chosen)
        waited_s = self._contention.measure(counts=not offline)
        now = self._clock()
        worked_s = max(0.0, now - began - waited_s)
        if offline:
            self._offline.stepped(now, worked_s, offline)
        elif opened and (chosen or gained > 0):
            self._pace.add(opened, max(gained, 0), worked_s)
        return True

    def _plan(self, now: float) -> list[Stream]:
        """The streams that step now, each with its plan and with blocks for all of it."""
        longest = self._room.most_positions
        ready = candidates(
            self._slots, self._offline, self._limits.streams, now, partial(self._planned, now)
        )
        chosen = self._policy(self._company.ready(ready, self._slots, now), self._limits)
        for stream in chosen:
            if stream.planned is not None and not stream.planned.start:
                prefix = self._prefix(stream)
                held = self._room.share(stream.key, prefix, stream.branches)
                stream.begin_at(held, self._most(stream, now))
                stream.sought = bool(prefix)
        if self._room.free_for(sum(stream.branches for stream in chosen)):
            # A listener who may come at any moment waits for one round of jobs, not for several.
            short = self._offline.expects(now) and any(stream.offline for stream in chosen)
            rounds = 1 if short else self._limits.rounds(len(chosen), self._rounds)
            self._draft_lengths.widen(chosen, self._limits.positions, longest(), rounds)
        slacks, idle = partial(self._slacks, now), not self._in_flight
        return self._room.place(chosen, slacks, self._evict, idle=idle)

    def _planned(self, now: float, streams: Iterable[Stream]) -> list[Stream]:
        """Those of them that can step, with their plans."""
        longest = self._room.most_positions
        planned = self._each(
            lambda s: s.plan(now, self._most(s, now), longest(s.branches)), streams
        )
        return [stream for stream, can in planned if can]

    def _most(self, stream: Stream, now: float) -> int:
        """Positions of the stream's prompt in one step."""
        short = stream.offline and self._offline.expects(now)
        most = self._prompt_positions
        return min(most, self._offline.tuning.positions) if short else most

    @property
    def _prompt_positions(self) -> int:
        """Of one prompt in a step: with it there is place for a step of every other stream."""
        most = self._limits.positions
        return max(most // 2, most - self.spec.branches * (len(self._slots) - 1), 1)

    def _prefix(self, stream: Stream) -> Sequence[bytes]:
        """What a sequence may begin with; a position at the least is left to compute."""
        if not self._shares:
            return ()
        return stream.model.prefix()[: stream.last // BLOCK_POSITIONS * stream.branches]

    def _slacks(self, now: float) -> Iterable[tuple[str, float]]:
        return [(stream.key, stream.slack_at(now)) for stream in self._slots]

    def _evict(self, key: str) -> None:
        self._with(key, Stream.evict)
        self._gauges.evicted()

    # launch

    def _launch(self, chosen: list[Stream]) -> None:
        if not chosen:
            return
        began, self._stepping_s = self._clock(), self._step_clock()
        batch = [(stream, self._row(stream), stream.generation) for stream in chosen]
        launched, failed = launch_bisected(batch, self._start)
        self._fail_all(failed)
        for part, ticket in launched:
            for stream, row, _ in part:
                if stream.sought and not row.plan.decode:
                    self._gauges.sought(row.plan.start)
                    stream.sought = False
                stream.launched(began)
            self._in_flight.launched((list(part), ticket, began))
            self._gauges.launched([row.plan for _, row, _ in part])
            self._launched(self._runner.paths(ticket))

    def _row(self, stream: Stream) -> Row:
        assert stream.planned is not None
        model, blocks = stream.model, self._room.table(stream.key)
        return Row(model.stream, stream.slot, stream.planned, blocks, draw=model.draw)

    def _start(self, batch: Sequence[Launched]) -> Any:
        return self._runner.launch([row for _, row, _ in batch])

    # collect

    def _collect(self) -> int:
        """Take the oldest launch's results; returns the frames gained."""
        batch, ticket, began = self._in_flight.oldest()
        with self._contention.elsewhere() if self._runner.depth else nullcontext():
            results = self._runner.collect(ticket)
        self._in_flight.settle()
        self._company.stepped([stream for stream, _, _ in batch], sum(results.gained), began)
        self._account(batch, results, began)
        for index, (stream, row, generation) in enumerate(batch):
            if stream.generation == generation and stream.slot >= 0:
                self._accept(stream, row, results, index)
        return sum(results.gained)

    def _account(self, batch: Sequence[Launched], results: Results, began: float) -> None:
        """A step lasts from its launch, or from the end of the one before, to its results."""
        now = self._clock()
        took_s, self._collected_s = now - max(began, self._collected_s), now
        self._stepped(took_s, (stream for stream, _, _ in batch))
        if (gained := max(results.gained)) and all(row.plan.decode for _, row, _ in batch):
            self._step_s.append(took_s / gained)
        if not self._runner.depth:
            since_s, self._stepping_s = self._stepping_s, self._step_clock()
            took_s = self._stepping_s - since_s
        self._draft_lengths.account([row.plan for _, row, _ in batch], results.gained, took_s)

    def _accept(self, stream: Stream, row: Row, results: Results, index: int) -> None:
        try:
            if results.bad[index]:
                self._room.forget(stream.key)
                raise FloatingPointError("the model computed values that are not finite")
            if row.plan.partial:
                return
            if not row.plan.decode and self._shares:
                self._room.publish(stream.key, stream.model.prefix())
            cached = row.plan.start + results.kept[index]
            ended, frames = results.ended[index], results.row(index)
            for runaway in stream.accept(cached, frames, ended, self._collected_s):
                self._gauges.caught(stream, runaway)
        except Exception as error:
            self._fail(stream, error)

    # send

    def _send_due(self) -> None:
        """Cut due chunks, render them all at once, hand them out, and close what is done."""
        now = self._clock()
        heard = self._company.heard(self._slots, now)
        busy = self._contention.factor * self._pace.at(max(1, heard)) * self.spec.frame_rate_hz
        steps = median(self._step_s) * self.spec.frame_rate_hz if self._step_s else busy
        sizes = self._sizes.among(heard, steps)
        due = self._each(lambda stream: stream.due(sizes, now, busy))
        if cuts := {stream: count for stream, count in due if count}:
            calm = heard <= _FEW and busy < _CALM
            if calm and any(stream.startup for stream in cuts):
                self._company.began(now)
            self._send(cuts)
        for stream, over in self._each(lambda stream: stream.over):
            if over:
                self._finish(stream)

    def _send(self, cuts: dict[Stream, int]) -> None:
        taken = self._each(lambda stream: stream.model.take(cuts[stream]), cuts)
        rendered, failed = launch_bisected(taken, self._render)
        self._fail_all(failed)
        now = self._clock()
        for part, arrays in rendered:
            at = 0
            for stream, raw in part:
                count = rows(raw.frames)
                frames = cut(arrays, at, at + count)
                self._emit(stream.key, raw._replace(frames=frames, prefill=stream.prefill))
                at += count
                self._gauges.chunk(stream, count, now)

    def _render(self, taken: Sequence[tuple[Stream, Taken]]) -> Arrays:
        raw = concatenate([raw.frames for _, raw in taken])
        if not self.spec.renders:
            return raw
        rendered = self._runner.render(raw)
        if rows(rendered) != rows(raw):
            raise RuntimeError(f"{rows(rendered)} frames were rendered of {rows(raw)}")
        return {**{name: raw[name] for name in self.spec.replay if name in raw}, **rendered}

    def _finish(self, stream: Stream) -> None:
        if (cut_short := stream.model.cut_short) is not None:
            self._emit(stream.key, cut_short)
        super()._finish(stream)
        now = self._clock()
        self._company.finished(stream, stream.slack_at(now), now)

    def _found_nothing(self, now: float) -> float:
        return self._company.wait_s(now, super()._found_nothing(now))

    def _freed(self, stream: Stream) -> None:
        self._room.free(stream.key)
