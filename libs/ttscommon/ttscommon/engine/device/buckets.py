"""The few sizes that work is padded to, so that a graph of each can be kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class BatchSizes:
    """Sizes in ascending order."""

    def __init__(self, sizes: Sequence[int]) -> None:
        if not sizes or min(sizes) < 1:
            raise ValueError("there is at least one size, and all are positive")
        self.sizes = tuple(sorted(set(sizes)))

    @classmethod
    def doubling(cls, most: int, least: int = 1) -> BatchSizes:
        """least, twice that, ... and `most`."""
        sizes = []
        while least < most:
            sizes.append(least)
            least *= 2
        return cls([*sizes, most])

    def fit(self, size: int) -> int | None:
        """The least that holds `size`; None if none does."""
        at = bisect_left(self.sizes, size)
        return self.sizes[at] if at < len(self.sizes) else None
