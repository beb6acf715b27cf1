"""Capacity of the generator itself: a run against a server that only keeps time."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_bench.config import Closed, Protocol, RunConfig, Target
from antiphon_bench.loopback import Pace, serve_forever
from antiphon_bench.results import Summary
from antiphon_bench.run import run

_START_S = 10.0


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve_forever, args=(port, pace, slots), daemon=True)
    process.start()
    try:
        _wait_until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
