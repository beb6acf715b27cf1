"""Measured step times: what a stage's engine needs for a batch of a given size."""

from __future__ import annotations

from collections.abc import Mapping


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
