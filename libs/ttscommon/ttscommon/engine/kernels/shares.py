"""One call's work shared among processors: a prompt's products, a segment's convolutions.

A thread takes the next part when it is free, so that a processor which other programs use holds
nothing up for long.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

SHARED_ROWS: Final = 24
"""Rows of a prompt from which on it is shared: in steps of few streams the other stage needs its
processor.
"""
_MOST_PROCESSORS: Final = 4
# Of each processor: fewer would end at different times, more would be handed out all the time.
_PARTS: Final = 3


@cache
def _helpers() -> tuple[ThreadPoolExecutor | None, int]:
    """Threads beside the one that calls, and how many; None where there is one processor."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = min(there or 1, _MOST_PROCESSORS) - 1
    return (ThreadPoolExecutor(count, "shares") if count else None), count


def in_shares(size: int, grain: int, work: Callable[[int, int], object]) -> None:
    """work(first, last) for parts of range(size), each of a multiple of `grain` but the last, on
    several threads; returns when all is done. work: runs without the interpreter's lock.
    """
    pool, helpers = _helpers()
    if pool is None:
        work(0, size)
        return
    step = max(1, -(-size // (grain * _PARTS * (helpers + 1)))) * grain
    parts = deque((first, min(size, first + step)) for first in range(0, size, step))

    def run() -> None:
        while True:
            try:
                first, last = parts.popleft()
            except IndexError:
                return
            work(first, last)

    asked = [pool.submit(run) for _ in range(min(helpers, len(parts) - 1))]
    run()
    for one in asked:
        if not one.cancel():
            one.result()
