"""`python -m talker.calibrate FILE`: measure the talker's step times, for `--engine fake` to keep.

Settings are the talker's own, from the environment.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from talker.engine.chunker import ChunkSizes
from talker.engine.engine import Caches, ChunkReady, Engine, Event, Failed
from talker.engine.scheduler import Limits, offline
from talker.loading import load_model
from talker.models.base import Attend, Rendered, Slice, TalkerModel, TalkerStream
from talker.models.fake import Curve
from talker.settings import TalkerSettings
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics

BATCHES: Final = (1, 2, 4, 8, 16, 32)
_TEXT: Final = "The kettle has just boiled, so come in and sit down."
_ROUNDS: Final = 1


class Timed(TalkerModel):
    """A model that keeps books on itself. A step counts by the frames that it gave."""

    def __init__(self, model: TalkerModel, clock: Callable[[], float]) -> None:
        self.spec = model.spec
        self._clock = clock
        self._model = model
        self.steps: dict[int, list[float]] = defaultdict(list)
        self.prefills: list[tuple[int, int, float]] = []
        self.renders: list[tuple[int, float]] = []

    def open(self, request: SpeechRequest) -> TalkerStream:
        return self._model.open(request)

    def step(self, batch: Sequence[Slice], attend: Mapping[str, Attend]) -> None:
        prompts = sum(part.plan.start == 0 for part in batch)
        before = sum(part.stream.frames for part in batch)
        started = self._clock()
        self._model.step(batch, attend)
        took_s = self._clock() - started
        frames = sum(part.stream.frames for part in batch) - before
        if prompts:
            self.prefills.append((len(batch), prompts, took_s))
        elif frames:
            self.steps[len(batch)].append(took_s * len(batch) / frames)

    def render(self, parts: Sequence[tuple[TalkerStream, int]]) -> list[Rendered]:
        started = self._clock()
        rendered = self._model.render(parts)
        took_s = self._clock() - started
        self.renders.append((sum(count for _, count in parts), took_s))
        return rendered

    def curve(self) -> Curve:
        """What was measured, as the fake engine keeps it."""
        step_s = {size: median(times) for size, times in sorted(self.steps.items())}
        known = Curve(step_s=step_s)
        extra = [(s - known.seconds(n, 0)) / prompts for n, prompts, s in self.prefills]
        frames, seconds = np.array(self.renders).T
        slope, base = np.polyfit(frames, seconds, 1) if len(set(frames)) > 1 else (0.0, 0.0)
        return Curve(
            step_s={n: round(step_s[n], 6) for n in BATCHES if n in step_s},
            prefill_s=round(max(0.0, median(extra)), 6),
            render_base_s=round(max(0.0, float(base)), 6),
            render_frame_s=round(max(0.0, float(slope)), 6),
        )


def calibrate(
    model: TalkerModel,
    caches: Caches | None,
    blocks: int,
    batches: Sequence[int] = BATCHES,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Curve:
    """Speak to nobody in batches of every size; raises what the model fails with."""
    timed = Timed(model, clock)
    for _ in range(rounds):
        for streams in batches:
            _speak(timed, caches, blocks, streams)
    return timed.curve()


def _speak(model: Timed, caches: Caches | None, blocks: int, streams: int) -> None:
    engine = Engine(
        model,
        caches,
        blocks=blocks,
        slots=streams,
        metrics=Metrics(),
        sizes=ChunkSizes(initial=1, regular=25),
        limits=Limits(streams=streams, positions=4096),
        policy=offline,
    )
    left = {f"calibration-{index}" for index in range(streams)}
    failures: list[Exception] = []

    def listen(request_id: str, event: Event) -> None:
        if isinstance(event, ChunkReady):
            engine.acknowledge(request_id)
            return
        left.discard(request_id)
        if isinstance(event, Failed):
            failures.append(event.error)

    voice = model.spec.voices[0].id
    for index, request_id in enumerate(sorted(left)):
        request = SpeechRequest(request_id, model.spec.name, voice, _TEXT, seed=index)
        engine.open(request, None, partial(listen, request_id))
    while left:
        engine.step()
    if failures:
        raise failures[0]


def main(arguments: Sequence[str]) -> None:
    """Write the curve to the file named."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m talker.calibrate FILE")
    settings = TalkerSettings.load()
    model, caches = load_model(settings)
    # A single thread's own time is what a step takes on a free core, whatever else runs here.
    clock = time.thread_time if settings.threads == 1 else time.perf_counter
    curve = calibrate(model, caches, settings.kv_blocks, clock=clock)
    Path(arguments[0]).write_bytes(msgspec.json.format(msgspec.json.encode(curve)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
