"""Host time of the talker's turns: its own engine on a runner that computes nothing.

What is left is what a device would wait for if nothing overlapped it: choosing, placing, staging
slots, collecting, cutting chunks and handing the turn's events over.

    python -m tests.benchmarks.turns [STREAMS ...]
"""

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from antiphon_bench.stats import percentile
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits
from talker.engine.stream import Event
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.streams import Results, Row, Taken
from ttsfamilies.fake import CODEBOOKS
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve

_POSITIONS: Final = 1024
_BLOCKS: Final = _POSITIONS // 16  # of a stream that fills its share of the cache


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a turn in which every stream gains a frame."""

    streams: int
    turns: int
    p50_s: float
    p95_s: float


class _Instant:
    """Stages every slot and gives each row a frame of zeros at once."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.width = 1

    def record(self, streams: int, positions: int) -> None:
        """Nothing is recorded."""

    def launch(self, rows: Sequence[Row]) -> Results:
        for row in rows:
            row.stream.stage(_discard)
        count = len(rows)
        frames = np.zeros((count, 1, CODEBOOKS), np.int16)
        flags = [False] * count
        return Results({"codes": frames}, [1] * count, flags, flags, [r.plan.count for r in rows])

    def collect(self, ticket: Results) -> Results:
        return ticket

    def render(self, raw: Arrays) -> Arrays:
        return raw

    def paths(self, ticket: Results) -> Sequence[str]:
        del ticket
        return ()


class _Family(FakeModel):
    """The fake family, without anything to compute or to wait for."""

    def runner(self, rows: int, blocks: int, depth: int) -> Any:
        del rows, blocks
        return _Instant(depth)


def _discard(name: str, value: Any, at: int = 0) -> None:
    """Where staged values go when there is no state."""


def measure(streams: int, turns: int, *, warmup: int = 50, depth: int = 0) -> Turns:
    """Turn `streams` streams `turns` times, each with blocks of a KV cache.

    The garbage collector's objects are frozen after the warm-up, as a talker's are.
    """
    taken = _taken(opened(streams, warmup + turns, depth))
    for _ in range(warmup):
        next(taken)
    gc.collect()
    gc.freeze()
    try:
        seconds = sorted(next(taken) for _ in range(turns))
    finally:
        gc.unfreeze()
    p50_s, p95_s = percentile(seconds, 0.5), percentile(seconds, 0.95)
    return Turns(streams=streams, turns=turns, p50_s=p50_s, p95_s=p95_s)


def opened(streams: int, turns: int, depth: int) -> Engine:
    """An engine with `streams` texts, none of which ends in `turns` turns."""
    manner = Manner(cached=True, max_positions=_POSITIONS)
    family = _Family("instant", StepCurve(), manner=manner)
    engine = Engine(
        family,
        slots=streams,
        metrics=Metrics(),
        blocks=streams * _BLOCKS,
        depth=depth,
        limits=StepLimits(streams=streams, positions=max(512, 4 * streams)),
    )

    def acknowledge(events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, Taken):
                engine.acknowledge(key)

    engine.listen(acknowledge)
    for index in range(streams):
        request = SpeechRequest(str(index), "instant", "slt", "a" * turns, seed=index)
        prepared = family.prepare(request)
        units = list(prepared.read([Text(request.text)], final=True))
        engine.open(prepared, None, units, final=True)
    return engine


def _taken(engine: Engine) -> Iterator[float]:
    """The seconds of each turn."""
    while True:
        began = time.perf_counter()
        engine.step()
        yield time.perf_counter() - began


def main() -> None:
    """The median and the p95 of so many streams at once, a line each."""
    for streams in map(int, sys.argv[1:] or (1, 16, 64, 256)):
        took = measure(streams, 400, depth=1)
        p50_ms, p95_ms = took.p50_s * 1e3, took.p95_s * 1e3
        print(f"{took.streams:5} streams  p50 {p50_ms:6.3f} ms  p95 {p95_ms:6.3f} ms")


if __name__ == "__main__":
    main()
