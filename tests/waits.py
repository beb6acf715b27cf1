"""How long tests wait for what is to come, and whether work takes longer than it may."""

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Final

TIMEOUT_S: Final = 60.0
"""Where all goes well nothing waits for so long, however busy the machine is."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until what it returns, or what that brings, is so; raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S):
        while not (await found if isawaitable(found := holds()) else found):
            await asyncio.sleep(0.005)


_TIMES_AS_LONG: Final = 5
_SHORT_RUNS: Final = 3
_LONG_RUNS: Final = 8
_UNSEEN_S: Final = 0.02


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether five times the size takes at most ten times the processor time.

    Other load only makes figures longer, so the least of each counts: work that grows with the
    square takes 25 times as long.
    """

    def seconds(size: int) -> float:
        began_s = time.process_time()
        work(size)
        return time.process_time() - began_s

    short_s = min(seconds(size) for _ in range(_SHORT_RUNS))
    most_s = 2 * _TIMES_AS_LONG * short_s + _UNSEEN_S
    return any(seconds(_TIMES_AS_LONG * size) < most_s for _ in range(_LONG_RUNS))
