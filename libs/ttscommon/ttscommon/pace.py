"""How fast an engine really is: what it takes to give every open stream one more frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median
from types import MappingProxyType
from typing import Final

_WINDOW_S: Final = 0.25
_WINDOWS: Final = 8


class Pace:
    """Rounds by streams: a round gives each of n open streams one frame.

    Everything the engine does counts, prompts and rendering too, whoever shared its core: a curve
    of bare steps promises more than listeners get. Time is summed up over windows of work.
    """

    def __init__(self, known: Mapping[int, float] = MappingProxyType({})) -> None:
        """`known`: seconds of a round by streams, as far as known before any traffic."""
        self._known = dict(known)
        self._windows: dict[int, deque[float]] = {}
        self._seconds = self._stream_seconds = 0.0
        self._frames = 0

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
        self._windows.setdefault(size, deque(maxlen=_WINDOWS)).append(round_s)
        self._seconds, self._stream_seconds, self._frames = 0.0, 0.0, 0

    @property
    def round_s(self) -> dict[int, float]:
        """Median seconds of a round by streams; may be asked from any thread."""
        lately = {size: median(list(times)) for size, times in list(self._windows.items())}
        return {**self._known, **lately}
