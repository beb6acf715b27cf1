"""`python -m talker.calibrate FILE`: measure the talker's step times, for `--engine fake` to keep.

Settings are the talker's own, from the environment.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import numpy as np

from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits, offline
from talker.family.base import Family, Prepared
from talker.family.chunker import ChunkSizes
from talker.family.runner import Results, Row, Runner
from talker.family.streams import TalkerStream
from talker.loading import blocks_of, load_family
from talker.models.fake import Curve
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.engine.inflight import LaunchPath
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, rows
from ttscommon.wire.messages import SpeechRequest

BATCHES: Final = (1, 2, 4, 8, 16, 32)
_TEXT: Final = "The kettle has just boiled, so come in and sit down."
_ROUNDS: Final = 1
_POSITIONS: Final = 4096


class TimedRunner:
    """A runner that keeps books on itself. A step counts by the frames that it gave."""

    def __init__(self, runner: Runner, clock: Callable[[], float], books: Timed) -> None:
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
        prompts = sum(row.plan.start == 0 for row in batch)
        return ticket, len(batch), prompts, self._clock() - started

    def collect(self, ticket: Any) -> Results:
        launched, streams, prompts, launch_s = ticket
        started = self._clock()
        results = self._runner.collect(launched)
        took_s = launch_s + self._clock() - started
        frames = sum(results.gained)
        if prompts:
            self._books.prefills.append((streams, prompts, took_s))
        elif frames:
            self._books.steps[streams].append(took_s * streams / frames)
        return results

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        return self._runner.paths(ticket[0])

    def render(self, raw: Arrays) -> Arrays:
        started = self._clock()
        rendered = self._runner.render(raw)
        self._books.renders.append((rows(raw), self._clock() - started))
        return rendered


class Timed(Family):
    """A model whose runner is timed."""

    def __init__(self, family: Family, clock: Callable[[], float]) -> None:
        self.spec = family.spec
        self._family = family
        self._clock = clock
        self.steps: dict[int, list[float]] = defaultdict(list)
        self.prefills: list[tuple[int, int, float]] = []
        self.renders: list[tuple[int, float]] = []

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> Prepared:
        return self._family.prepare(request, reference, turns)

    def open(self, prepared: Prepared) -> TalkerStream:
        return self._family.open(prepared)

    def examples(self) -> Sequence[str]:
        return self._family.examples()

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        return TimedRunner(self._family.runner(rows, blocks, depth), self._clock, self)

    def curve(self) -> Curve:
        """What was measured, as the fake engine keeps it."""
        step_s = {size: median(times) for size, times in sorted(self.steps.items())}
        known = Curve(step_s=step_s)
        extra = [(s - known.seconds(n, 0)) / prompts for n, prompts, s in self.prefills]
        slope, base = 0.0, 0.0
        if self.renders:
            frames, seconds = np.array(self.renders).T
            if len(set(frames)) > 1:
                slope, base = np.polyfit(frames, seconds, 1)
        return Curve(
            step_s={n: round(step_s[n], 6) for n in BATCHES if n in step_s},
            prefill_s=round(max(0.0, median(extra)), 6),
            render_base_s=round(max(0.0, float(base)), 6),
            render_frame_s=round(max(0.0, float(slope)), 6),
        )


def calibrate(
    family: Family,
    blocks: int,
    batches: Sequence[int] = BATCHES,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Curve:
    """Speak without a listener in batches of every size; raises what the model fails with."""
    timed = Timed(family, clock)
    runner = timed.runner(max(batches), blocks if family.spec.caches else 0, timed.depth)
    runner.record(max(batches), _POSITIONS)
    for _ in range(rounds):
        for streams in batches:
            _speak(timed, runner, blocks, streams)
    return timed.curve()


def _speak(timed: Timed, runner: Runner, blocks: int, streams: int) -> None:
    engine = Engine(
        timed,
        blocks=blocks,
        slots=streams,
        runner=runner,
        metrics=Metrics(),
        sizes=ChunkSizes(initial=1, regular=25),
        limits=StepLimits(streams=streams, positions=_POSITIONS),
        policy=offline,
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
    Path(arguments[0]).write_bytes(msgspec.json.format(msgspec.json.encode(curve)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
