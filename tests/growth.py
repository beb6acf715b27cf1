"""Whether work grows no faster than its input, on a machine of any speed that others use too."""

import time
from collections.abc import Callable
from typing import Final

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
