"""`python -m talker.calibrate FILE`: measure the talker's step times, for `--engine fake` to keep.

Settings are the talker's own, from the environment.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from talker.engine.draft_lengths import DraftLengths
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits, offline
from talker.loading import blocks_of, load_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.engine.inflight import LaunchPath
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import NOTHING, Arrays, Derived, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.streams import Results, Row, Runner, TalkerStream
from ttsfamilies.fake.talker import Drafted, StepCurve

BATCHES: Final = (1, 2, 4, 8, 16, 32)
_TEXT: Final = "The kettle has just boiled, so come in and sit down."
_ROUNDS: Final = 1
_POSITIONS: Final = 4096


class TimedRunner:
    """A runner that keeps books on itself."""

    def __init__(self, runner: Runner, clock: Callable[[], float], books: Timings) -> None:
        self.depth = runner.depth
        self.width = runner.width
        self._runner = runner
        self._clock = clock
        self._books = books

    def record(self, streams: int, positions: int) -> None:
        self._runner.record(streams, positions)

    def launch(self, batch: Sequence[Row]) -> Any:
        started = self._clock()
        ticket = self._runner.launch(batch)
        prompts = sum(not row.plan.decode for row in batch)
        plan = max((row.plan for row in batch), key=lambda plan: plan.count)
        return ticket, len(batch), prompts, plan, self._clock() - started

    def collect(self, ticket: Any) -> Results:
        launched, streams, prompts, plan, launch_s = ticket
        started = self._clock()
        results = self._runner.collect(launched)
        took_s = launch_s + self._clock() - started
        step = Step(streams, sum(results.gained), took_s, plan.rounds)
        if prompts:
            self._books.prompted(step, prompts)
        else:
            self._books.stepped(step, 1 if plan.certain else plan.width)
        return results

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        return self._runner.paths(ticket[0])

    def render(self, raw: Arrays) -> Arrays:
        started = self._clock()
        rendered = self._runner.render(raw)
        self._books.rendered(rows(raw), self._clock() - started)
        return rendered


class Step(NamedTuple):
    """What a launch of so many streams gave and took, in so many rounds."""

    streams: int
    frames: int
    took_s: float
    rounds: int

    @property
    def frame_s(self) -> float:
        """Of one more frame of every stream."""
        return self.took_s * self.streams / self.frames


class Timings:
    """What launches, renderings and turns took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps: dict[int, list[Step]] = defaultdict(list)
        self._prompts: list[tuple[Step, int]] = []
        self._renders: list[tuple[int, float]] = []
        self._turns: dict[int, list[float]] = defaultdict(list)
        self._began_s, self._model_s, self._streams = 0.0, 0.0, 0

    def prompted(self, step: Step, prompts: int) -> None:
        """A launch had so many prompts in it."""
        self._prompts.append((step, prompts))

    def stepped(self, step: Step, width: int) -> None:
        """A launch tried so many frames of each stream."""
        if step.frames:
            self._steps[width].append(step)
        self._streams = step.streams
        self._model_s += step.took_s

    def rendered(self, frames: int, took_s: float) -> None:
        """Frames were rendered, of however many streams."""
        self._renders.append((frames, took_s))
        self._model_s += took_s

    def beat(self) -> None:
        """A turn begins. What the last one took beside its model is the engine's own; a turn with
        a prompt also opened streams, and does not count.
        """
        now = self._clock()
        if self._streams:
            self._turns[self._streams].append(max(0.0, now - self._began_s - self._model_s))
        self._began_s, self._model_s, self._streams = now, 0.0, 0

    def curve(self) -> StepCurve:
        """What was measured, as the fake engine keeps it and the planner reads it."""
        drafts = {width: _drafted(width, steps) for width, steps in sorted(self._steps.items())}
        step_s = _fastest(drafts)
        base_s, frame_s = self._rendering()
        return StepCurve(
            step_s=step_s,
            prefill_s=round(max(0.0, self._prefill_s(drafts)), 6),
            render_base_s=base_s,
            render_frame_s=frame_s,
            drafts=drafts if len(drafts) > 1 else {},
            turn_s={n: round(median(self._turns[n]), 6) for n in step_s if n in self._turns},
        )

    def _prefill_s(self, drafts: Mapping[int, Drafted]) -> float:
        """Of a prompt, beyond a plain step of as many streams."""
        plain = StepCurve(step_s=drafts[min(drafts)].step_s)
        return median(
            (step.took_s - plain.seconds(step.streams, 0)) / n for step, n in self._prompts
        )

    def _rendering(self) -> tuple[float, float]:
        """Seconds of rendering: of each call, and of each frame."""
        slope, base = 0.0, 0.0
        if self._renders:
            frames, seconds = np.array(self._renders).T
            if len(set(frames)) > 1:
                slope, base = np.polyfit(frames, seconds, 1)
        return round(max(0.0, float(base)), 6), round(max(0.0, float(slope)), 6)


def _drafted(width: int, steps: Sequence[Step]) -> Drafted:
    """Steps of one width. A plain one counts by the frames that it gave."""
    took_s: dict[int, list[float]] = defaultdict(list)
    for step in steps:
        took_s[step.streams].append(step.frame_s if width == 1 else step.took_s / step.rounds)
    gained = sum(step.frames for step in steps) / sum(s.streams * s.rounds for s in steps)
    return Drafted(
        {n: round(median(took_s[n]), 6) for n in BATCHES if n in took_s},
        1.0 if width == 1 else round(gained, 3),
    )


def _fastest(drafts: Mapping[int, Drafted]) -> dict[int, float]:
    """By streams, seconds of a frame of each at the width that gains most."""
    sizes = sorted({n for drafted in drafts.values() for n in drafted.step_s})
    return {
        n: round(min(one.step_s[n] / one.gained for one in drafts.values() if n in one.step_s), 6)
        for n in sizes
    }


class OneDraftLength(DraftLengths):
    """Steps that all try as many frames."""

    def __init__(self, width: int, most: int, gained: Callable[[int, float], object]) -> None:
        super().__init__(most, gained)
        self._width = width

    def choose(self, streams: int, rounds: int = 1) -> int:
        del streams, rounds
        return self._width


class TimedFamily(Family):
    """A model whose runner is timed."""

    def __init__(self, family: Family, clock: Callable[[], float]) -> None:
        self.spec, self.examples = family.spec, family.examples
        self.books = Timings(clock)
        self._family = family
        self._clock = clock

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        return self._family.prepare(request, derived)

    def open(self, prepared: Prepared) -> TalkerStream:
        return self._family.open(prepared)

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        return TimedRunner(self._family.runner(rows, blocks, depth), self._clock, self.books)


def calibrate(
    family: Family,
    blocks: int,
    batches: Sequence[int] = BATCHES,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> StepCurve:
    """Speak without a listener in batches of every size; raises what the model fails with."""
    timed = TimedFamily(family, clock)
    runner = timed.runner(max(batches), blocks if family.spec.caches else 0, timed.depth)
    runner.record(max(batches), _POSITIONS)
    for _ in range(rounds):
        for streams, width in product(batches, DraftLengths(runner.width).choices):
            _speak(timed, runner, blocks, streams, width)
    most = 1 if runner.depth else family.spec.rounds
    return msgspec.structs.replace(timed.books.curve(), rounds=most)


def _speak(timed: TimedFamily, runner: Runner, blocks: int, streams: int, width: int) -> None:
    engine = Engine(
        timed,
        blocks=blocks,
        slots=streams,
        runner=runner,
        metrics=Metrics(),
        sizes=ChunkSizes(initial=1, regular=25),
        limits=StepLimits(streams=streams, positions=_POSITIONS),
        policy=offline,
        draft_lengths=partial(OneDraftLength, width),
        beat=timed.books.beat,
    )
    voice = timed.spec.voices[0].id if timed.spec.voices else ""
    requests = [
        SpeechRequest(f"calibration-{i}", timed.spec.name, voice, _TEXT, seed=i)
        for i in range(streams)
    ]
    for spoken in synthesise(engine, requests):
        if spoken.error is not None:
            raise spoken.error


def main(arguments: Sequence[str]) -> None:
    """Write the curve to the file named."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m talker.calibrate FILE")
    settings = TalkerSettings.load()
    family = load_family(settings)
    # A single thread's own time is what a step takes on a free core, whatever else runs here.
    clock = time.thread_time if settings.threads == 1 else time.perf_counter
    curve = calibrate(family, blocks_of(settings, family), clock=clock)
    started_s = {streams: round(s, 6) for streams, s in family.measured_round_s.items()}
    curve = msgspec.structs.replace(curve, started_s=started_s)
    Path(arguments[0]).write_bytes(msgspec.json.format(msgspec.json.encode(curve)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
