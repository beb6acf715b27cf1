"""An engine's real speed, and the processor time that other programs take from it."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from types import MappingProxyType
from typing import Final

from ttscommon.cluster.admission.capacity import Line

_WINDOW_S: Final = 0.25
_WINDOWS: Final = 8
_FRESH_S: Final = 30.0


class RoundTimes:
    """Rounds by streams: a round gives each of n open streams one frame.

    Everything the engine does counts, prompts and rendering too, with any load beside it: a curve
    of bare steps promises more than listeners get. Time is summed up over windows of work.

    Sizes not seen lately are taken from what was known before any traffic, as much slower or
    faster as the sizes that were seen. So a busy moment is forgotten: a planner that uses it lets
    no stream in, and would never see those sizes again.
    """

    def __init__(
        self,
        known: Mapping[int, float] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known`: seconds of a round by streams, as far as known before any traffic."""
        self._known = dict(known)
        self._clock = clock
        self._windows: dict[int, deque[tuple[float, float]]] = {}
        self._seconds = self._stream_seconds = 0.0
        self._frames = 0
        self._line = Line.through(self._known) if self._known else Line(0.0, 0.0)

    def at(self, streams: int) -> float:
        """Seconds of a round of `streams` open streams, by what was seen lately; 0 if nothing."""
        return self._line.at(streams)

    def add(self, streams: int, frames: int, seconds: float) -> None:
        """`seconds` of work, with `streams` open, made `frames` frames, of whichever streams."""
        self._seconds += seconds
        self._stream_seconds += streams * seconds
        self._frames += frames
        if self._seconds < _WINDOW_S or not self._frames:
            return
        mean = self._stream_seconds / self._seconds
        size = max(1, round(mean))
        round_s = size * self._seconds / self._frames
        self._windows.setdefault(size, deque(maxlen=_WINDOWS)).append((self._clock(), round_s))
        self._seconds, self._stream_seconds, self._frames = 0.0, 0.0, 0
        self._line = Line.through(self.round_s)

    @property
    def round_s(self) -> dict[int, float]:
        """Median seconds of a round by streams; may be asked from any thread."""
        since_s = self._clock() - _FRESH_S
        lately: dict[int, float] = {}
        for size, windows in list(self._windows.items()):
            if fresh := [round_s for at_s, round_s in list(windows) if at_s >= since_s]:
                lately[size] = median(fresh)
        if not (lately and self._known):
            return lately or dict(self._known)
        line = Line.through(self._known)
        ratios = [s / line.at(size) for size, s in lately.items() if line.at(size) > 0.0]
        slower = median(ratios) if ratios else 1.0
        return {**{size: slower * s for size, s in self._known.items()}, **lately}


_NS: Final = 1e-9
_HALF_LIFE_S: Final = 0.15
# So much undisturbed work is supposed to have gone before, so that little says little.
_PRIOR_S: Final = 0.002
# What was measured stands for so long.
_HOLD_S: Final = 1.0

Usage = tuple[float, float]


class Contention:
    """How many times as long the work of one thread takes as on a processor of its own.

    The kernel counts how long a thread that could run had to wait for a processor. That follows the
    machine within tenths of a second, whatever the thread computes, and does not count what it
    waits for by itself: a lock, a message. A device takes as long as ever, so what is spent
    `elsewhere` counts as work. Where no such count is to be had it says 1.

    A thread has to work to know it: of one that has nothing to do nothing is known.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[], Usage | None] | None = None,
    ) -> None:
        """`read`: seconds for which the thread has run, and for which it has waited to."""
        self._clock = clock
        self._read = read
        self._before: Usage | None = None
        self._at_s = clock()
        self._device_s = self._worked_s = self._waited_s = 0.0

    @property
    def factor(self) -> float:
        """Lately, 1 or more; 1 again when the thread has not worked for a while."""
        age_s = max(0.0, self._clock() - self._at_s - _HOLD_S)
        decay = math.exp2(-age_s / _HALF_LIFE_S)
        worked_s, waited_s = self._worked_s * decay, self._waited_s * decay
        return (worked_s + waited_s + _PRIOR_S) / (worked_s + _PRIOR_S)

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """In it the thread waits for its device. From the same thread as `measure`."""
        self._read = self._read or Schedstat()
        began_s, before = self._clock(), self._read()
        yield
        after, passed_s = self._read(), self._clock() - began_s
        if before is not None and after is not None:
            self._device_s += max(0.0, passed_s - (sum(after) - sum(before)))

    def measure(self, *, counts: bool = True) -> float:
        """Seconds waited since the last call. Each call is to come from the same thread.

        counts: it says something of what other work will have to wait for.
        """
        self._read = self._read or Schedstat()
        now, usage, before = self._clock(), self._read(), self._before
        self._before = usage
        if usage is None or before is None:
            return 0.0
        waited_s = max(0.0, usage[1] - before[1])
        if not counts:
            return waited_s
        decay = math.exp2((self._at_s - now) / _HALF_LIFE_S)
        worked_s, self._device_s = max(0.0, usage[0] - before[0]) + self._device_s, 0.0
        self._worked_s = self._worked_s * decay + worked_s
        self._waited_s = self._waited_s * decay + waited_s
        self._at_s = now
        return waited_s

    def idle(self) -> None:
        """The thread had nothing to do: what it waited for meanwhile says nothing. From the same
        thread as `measure`.
        """
        self._read = self._read or Schedstat()
        self._before = self._read()


class Schedstat:
    """Reads the kernel's counts of the thread that makes it; None where there are none."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def __call__(self) -> Usage | None:
        if self._file < 0:
            return None
        try:
            ran, waited, *_ = os.pread(self._file, 96, 0).split()
        except (OSError, ValueError):
            return None
        return int(ran) * _NS, int(waited) * _NS

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)
