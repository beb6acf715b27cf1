"""A subcommand's minutes, counted from the start of its process, and what ends it when they end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

# When the process began, where this module is the program's; set by `__main__`.
_began_s: float | None = None


class CutOff(Exception):
    """The minutes are over; what was measured is kept."""


def count_start() -> None:
    """From now on the start of this process counts: an interpreter with torch takes seconds."""
    global _began_s
    _began_s = psutil.Process().create_time()


def spent_s() -> float:
    """Seconds since this process began; 0 where it is not the subcommand's own."""
    return 0.0 if _began_s is None else time.time() - _began_s


@contextmanager
def within(minutes: float) -> Iterator[None]:
    """Raise CutOff inside when the minutes are over. For the main thread."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise CutOff

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, 60 * minutes - spent_s()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
