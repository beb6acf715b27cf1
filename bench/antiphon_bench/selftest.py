"""Capacity of the generator itself: a run against a server that only keeps time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_bench.config import Closed, Protocol, RunConfig, Target
from antiphon_bench.loopback import Pace, serve_forever
from antiphon_bench.results import Summary
from antiphon_bench.run import run

_START_S = 60.0


def self_test(options: RunConfig, streams: int, protocol: Protocol) -> Summary:
    """Holds `streams` realtime streams open at once and returns what was seen; blocks.

    The server sends a little faster than playback, so that a stream stays open for about as long
    as it is heard. Late chunks are lateness of the generator or of the server process beside it.
    """
    pace = Pace(first_s=0.05, chunk_s=0.32, speed=1.1)
    with loopback_process(pace) as url:
        target = Target(url=url, protocol=protocol)
        update = {"target": target, "arrivals": Closed(concurrency=streams, listen=False)}
        return run(options.model_copy(update=update))


@contextmanager
def loopback_process(pace: Pace, slots: int = 0) -> Iterator[str]:
    """A loopback server in a process of its own while the context lasts; its address."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve_forever, args=(theirs, pace, slots), daemon=True)
    process.start()
    try:
        if not ours.poll(_START_S):
            raise TimeoutError("the loopback server does not start")
        yield str(ours.recv())
    finally:
        process.terminate()
        process.join()
