"""Host time of the talker's turns on a device: all of a turn but the wait for results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from antiphon_bench.gpu.both import open_in, request_of
from antiphon_bench.gpu.records import Point
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits, offline
from talker.engine.stream import ChunkReady, Event
from ttscommon.engine.inflight import LaunchPath
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.runners.device_runner import DeviceRunner, Ticket
from ttsfamilies.base.talker.runner import Results, Row
from ttsfamilies.qwen3_tts.family import Qwen3Tts

_WARM_UP: Final = 8
_POSITIONS: Final = 4096


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
) -> Engine:
    """An engine with `streams` streams, none of which ends in `turns` turns."""
    engine = Engine(
        family,
        slots=streams,
        blocks=runner.blocks,
        depth=runner.depth,
        runner=waited,
        limits=StepLimits(streams, _POSITIONS),
        policy=offline,
        metrics=Metrics(),
    )

    def acknowledge(events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                engine.acknowledge(key)

    engine.listen(acknowledge)
    for number in range(streams):
        open_in(engine, family, request_of(family, number, 2 * turns + 100))
    return engine
