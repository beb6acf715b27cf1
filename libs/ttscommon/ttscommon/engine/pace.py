"""An engine's real speed: the time it takes to give every open stream one more frame."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median
from types import MappingProxyType
from typing import Final

from ttscommon.cluster.curves import Line

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
