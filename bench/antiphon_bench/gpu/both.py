"""Both engines called directly, without a bus, and the host's time of the talker's turns."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from itertools import count, cycle
from statistics import median
from typing import Any, Final

import numpy as np

from antiphon_bench.gpu.records import Point
from talker.engine.engine import Engine as Talker
from talker.engine.scheduler import StepLimits, offline
from talker.engine.stream import Event as TalkerEvent
from ttscommon.engine.inflight import LaunchPath
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.codec.stateful import StatefulCodec
from ttsfamilies.base.runners.device_runner import DeviceRunner, Ticket
from ttsfamilies.base.talker.streams import Results, Row, Taken
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from vocoder.engine.engine import Engine as Vocoder
from vocoder.engine.stream import DecodedAudio
from vocoder.engine.stream import Event as VocoderEvent
from vocoder.settings import VocoderSettings

TEXT: Final = "The kettle has just boiled, so come in and sit down."
# As on any GPU: what is measured is what is served.
VOCODER: Final = VocoderSettings(device="cuda")
_POSITIONS: Final = 512
_DRAIN_S: Final = 60.0
_WARM_SHARE: Final = 0.25


def request_of(family: Qwen3Tts, number: int, most: int) -> SpeechRequest:
    """The text with the family's first voice, for so many frames at most."""
    name, voice = family.spec.name, family.spec.voices[0].id
    sampling = Sampling(max_new_tokens=most)
    return SpeechRequest(str(number), name, voice, TEXT, seed=number, sampling=sampling)


def open_in(engine: Talker, family: Qwen3Tts, request: SpeechRequest) -> None:
    """Give the engine a request with all of its text."""
    prepared = family.prepare(request)
    units = list(prepared.read([Text(TEXT)], final=True))
    engine.open(prepared, None, units, final=True)


class Both:
    """A closed loop of `streams` requests: one that ends is followed by the next.

    The engines turn on threads of their own, as in a pair.
    """

    def __init__(
        self,
        family: Qwen3Tts,
        runner: DeviceRunner,
        codec: StatefulCodec,
        streams: int,
        lengths: Sequence[int],
    ) -> None:
        self.metrics = {"talker": Metrics(), "vocoder": Metrics()}
        self._family, self._streams = family, streams
        self._talker = Talker(
            family,
            slots=streams,
            blocks=runner.blocks,
            depth=runner.depth,
            runner=runner,
            limits=StepLimits(streams, _POSITIONS),
            metrics=self.metrics["talker"],
        )
        limits = VOCODER.limits(family.spec.frame_rate_hz)
        vocoder_metrics = self.metrics["vocoder"]
        self._vocoder = Vocoder(codec, slots=streams, limits=limits, metrics=vocoder_metrics)
        self._talker.listen(self._framed)
        self._vocoder.listen(self._sounded)
        self._keys, self._lengths = count(), cycle(lengths)
        self._ended: queue.SimpleQueue[tuple[str, Exception | None]] = queue.SimpleQueue()
        self._opened_s: dict[str, float] = {}
        self._sounds: list[tuple[float, int]] = []
        self._firsts: list[tuple[float, float]] = []

    def measured(self, duration_s: float) -> Point:
        """Seconds of sound a second and the first sound, after a quarter of the time."""
        self._talker.start()
        self._vocoder.start()
        try:
            began = time.perf_counter()
            for _ in range(self._streams):
                self._open()
            until, open_ = began + duration_s, self._streams
            while open_:
                over = time.perf_counter() >= until
                self._next(until + _DRAIN_S)
                open_ -= over
                if not over:
                    self._open()
            return self._figures(began + _WARM_SHARE * duration_s, until)
        finally:
            self._talker.stop()
            self._vocoder.stop()

    def _next(self, until: float) -> None:
        """Wait for a request to end; raises what it failed with, or TimeoutError."""
        try:
            _, error = self._ended.get(timeout=max(0.1, until - time.perf_counter()))
        except queue.Empty:
            raise TimeoutError("a request did not end") from None
        if error is not None:
            raise error

    def _open(self) -> None:
        number = next(self._keys)
        request = request_of(self._family, number, next(self._lengths) + 1)
        self._opened_s[request.request_id] = time.perf_counter()
        self._vocoder.open(request)
        open_in(self._talker, self._family, request)

    def _framed(self, events: Sequence[tuple[str, TalkerEvent]]) -> None:
        for key, event in events:
            if isinstance(event, Taken):
                self._vocoder.feed(key, event.frames)
                self._talker.acknowledge(key)
            elif isinstance(event, Failed):
                self._ended.put((key, event.error))
            else:
                self._vocoder.finish(key)

    def _sounded(self, events: Sequence[tuple[str, VocoderEvent]]) -> None:
        now = time.perf_counter()
        for key, event in events:
            if isinstance(event, DecodedAudio):
                self._sounds.append((now, len(event.pcm)))
                if (opened := self._opened_s.pop(key, None)) is not None:
                    self._firsts.append((opened, now - opened))
            elif isinstance(event, Finished | Failed):
                self._ended.put((key, event.error if isinstance(event, Failed) else None))

    def _figures(self, since: float, until: float) -> Point:
        samples = sum(count for at, count in self._sounds if since <= at < until)
        firsts = [1e3 * took_s for opened, took_s in self._firsts if since <= opened < until]
        first_ms = np.quantile(firsts, (0.5, 0.95)).round(2).tolist() if firsts else []
        return {
            "audio_s_per_s": round(samples / self._family.spec.sample_rate / (until - since), 2),
            "first_ms": dict(zip(("p50", "p95"), first_ms, strict=False)),
            "launches": {f"{stage} {path}": n for stage, path, n in self._launches()},
            "evictions": self._count("talker", "tts_evictions_total"),
        }

    def _launches(self) -> list[tuple[str, str, int]]:
        return [
            (stage, path, self._count(stage, "tts_launches_total", stage=stage, path=path))
            for stage in self.metrics
            for path in ("graph", "eager")
        ]

    def _count(self, of: str, name: str, **labels: str) -> int:
        return int(self.metrics[of].registry.get_sample_value(name, labels) or 0)


_WARM_UP: Final = 8
_TURN_POSITIONS: Final = 4096


class Waited:
    """A device's runner that knows how long the host waited for results."""

    def __init__(self, runner: DeviceRunner) -> None:
        self.depth, self.width, self.seconds = runner.depth, runner.width, 0.0
        self._runner = runner

    def record(self, streams: int, positions: int) -> None:
        self._runner.record(streams, positions)

    def launch(self, rows: Sequence[Row]) -> Ticket:
        return self._runner.launch(rows)

    def collect(self, ticket: Any) -> Results:
        began = time.perf_counter()
        for part in ticket.parts:
            part.fetch.arrive()
        self.seconds += time.perf_counter() - began
        return self._runner.collect(ticket)

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        return self._runner.paths(ticket)

    def render(self, raw: Arrays) -> Arrays:
        return self._runner.render(raw)


def measured(family: Qwen3Tts, runner: DeviceRunner, streams: int, turns: int) -> Point:
    """Median seconds of a turn in which `streams` streams gain a frame each.

    host_seconds: plan, place, stage, launch, accept and send; what is left is the wait.
    """
    waited = Waited(runner)
    engine = _opened(family, runner, waited, streams, _WARM_UP + turns)
    found, host = list[float](), list[float]()
    for turn in range(_WARM_UP + turns):
        waited.seconds, began = 0.0, time.perf_counter()
        engine.step()
        took_s = time.perf_counter() - began
        if turn >= _WARM_UP:
            found.append(took_s)
            host.append(took_s - waited.seconds)
    for stream in list(engine._slots):
        engine.cancel(stream.key)
    while not engine.idle:
        engine.step()
    return {"seconds": median(found), "host_seconds": median(host)}


def _opened(
    family: Qwen3Tts, runner: DeviceRunner, waited: Waited, streams: int, turns: int
) -> Talker:
    """An engine with `streams` streams, none of which ends in `turns` turns."""
    engine = Talker(
        family,
        slots=streams,
        blocks=runner.blocks,
        depth=runner.depth,
        runner=waited,
        limits=StepLimits(streams, _TURN_POSITIONS),
        policy=offline,
        metrics=Metrics(),
    )

    def acknowledge(events: Sequence[tuple[str, TalkerEvent]]) -> None:
        for key, event in events:
            if isinstance(event, Taken):
                engine.acknowledge(key)

    engine.listen(acknowledge)
    for number in range(streams):
        open_in(engine, family, request_of(family, number, 2 * turns + 100))
    return engine
