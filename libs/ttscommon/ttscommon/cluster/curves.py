"""Measured step times: what a stage's engine needs for a batch of a given size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from statistics import median
from typing import Final

# The pairs of 16 points fix a line; those of the hundreds that a busy engine reports cost more
# than the request that is judged by them.
_MOST_POINTS: Final = 16


@dataclass(frozen=True)
class Line:
    """Seconds of a step: `base_s` + `stream_s` a stream, neither negative."""

    base_s: float
    stream_s: float

    def at(self, size: int) -> float:
        return self.base_s + self.stream_s * size

    @classmethod
    def through(cls, points: Mapping[int, float]) -> Line:
        """The line that half of the pairs of `points` are steeper than (Theil and Sen).

        Medians of a few steps each are noisy, and a search for the best of them finds the
        luckiest: one outlier must not move the whole. Raises ValueError without any point.
        """
        if not points:
            raise ValueError("a curve needs a measured point")
        return cls(*_fitted(tuple(points.items())))


# Every request is judged by the same few reports.
@lru_cache(1024)
def _fitted(measured: tuple[tuple[int, float], ...]) -> tuple[float, float]:
    """Base and slope of the line through the points; see Line.through."""
    points = dict(measured)
    sizes = _spread(sorted(points))
    slopes = [(points[b] - points[a]) / (b - a) for a, b in combinations(sizes, 2)]
    stream_s = max(0.0, median(slopes)) if slopes else 0.0
    return max(0.0, median(points[n] - stream_s * n for n in sizes)), stream_s


def _spread(sizes: Sequence[int]) -> list[int]:
    """At most `_MOST_POINTS` of `sizes`, the first and the last among them."""
    count = min(len(sizes), _MOST_POINTS)
    return [sizes[i * (len(sizes) - 1) // max(1, count - 1)] for i in range(count)]


def seconds_at(points: Mapping[int, float], size: int) -> float:
    """Seconds of a step of `size` streams, linear between the measured `points` and beyond them.

    Never less than the fastest point; raises ValueError without any point.
    """
    if not points:
        raise ValueError("a curve needs a measured point")
    sizes = sorted(points)
    if len(sizes) == 1 or size <= sizes[0]:
        return points[sizes[0]]
    upper = next((i for i, known in enumerate(sizes) if known >= size), len(sizes) - 1)
    low, high = sizes[upper - 1], sizes[upper]
    slope = (points[high] - points[low]) / (high - low)
    return max(min(points.values()), points[low] + slope * (size - low))
