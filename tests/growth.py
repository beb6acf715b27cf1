"""Whether work grows no faster than its input, on a machine of any speed that others use too."""

import time
from collections.abc import Callable
from typing import Final

_TIMES_AS_LONG: Final = 5
_ATTEMPTS: Final = 8
_UNSEEN_S: Final = 0.02


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether five times the size takes at most ten times the processor time.

    Other load makes single figures longer, so one attempt that shows it is enough: work that
    grows with the square takes 25 times as long in each.
    """

    def seconds(size: int) -> float:
        began_s = time.process_time()
        work(size)
        return time.process_time() - began_s

    return any(
        seconds(_TIMES_AS_LONG * size) < 2 * _TIMES_AS_LONG * seconds(size) + _UNSEEN_S
        for _ in range(_ATTEMPTS)
    )
