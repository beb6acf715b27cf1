"""Weighted fair shares of a bounded number of streams. Pure: no clock, no I/O.

A tenant within its share is never refused for the sake of another. One over its share may borrow
what no other tenant is likely to want soon: room for every other tenant to double what it has stays
free, and so does a reserve for those who have not spoken yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from enum import Enum


class Standing(Enum):
    """How a tenant's next stream relates to its share."""

    WITHIN = "within"
    BORROWED = "borrowed"
    OVER = "over"


class Shares:
    """Who holds how many streams. `memory_s`: who was silent for so long has no share."""

    def __init__(
        self, weights: Mapping[str, float], *, reserve: float = 0.1, memory_s: float = 60.0
    ) -> None:
        if not weights or min(weights.values()) <= 0.0 or not 0.0 <= reserve < 1.0:
            raise ValueError("weights are positive, and the reserve is in [0, 1)")
        self._weights = dict(weights)
        self._most_reserve = reserve
        self._memory_s = memory_s
        self._seen_s: dict[str, float] = {}
        self.held: Counter[str] = Counter()

    def reweigh(self, weights: Mapping[str, float]) -> None:
        """Tenants that are new, or weigh something else; others stay as they are."""
        self._weights.update(weights)

    @property
    def _reserve(self) -> float:
        """With a single tenant there is no other to keep anything for."""
        return self._most_reserve if len(self._weights) > 1 else 0.0

    @property
    def total(self) -> int:
        return self.held.total()

    def take(self, tenant: str) -> None:
        self.held[tenant] += 1

    def give_back(self, tenant: str) -> None:
        if self.held[tenant] < 1:
            raise AssertionError("gave back a stream that was not held")
        self.held[tenant] -= 1

    def judge(self, tenant: str, capacity: int, now: float) -> Standing:
        """Whether `tenant` may have one more of `capacity` streams."""
        self._seen_s[tenant] = now
        capacity = max(0, capacity)
        if self.total >= capacity:
            return Standing.OVER
        active = self.active(now)
        weights = math.fsum(self._weights[t] for t in active)
        share = {t: capacity * self._weights[t] / weights for t in active}
        # No tenant's share is less than one stream, however small its weight.
        if self.held[tenant] + 1 <= max(1.0, share[tenant] * (1.0 - self._reserve)):
            return Standing.WITHIN
        kept = sum(self._kept(t, share[t]) for t in active if t != tenant)
        newcomers = math.ceil(self._reserve * capacity)
        room = capacity - newcomers - kept
        return Standing.BORROWED if self.held[tenant] + 1 <= room else Standing.OVER

    def _kept(self, tenant: str, share: float) -> int:
        """What stays free or held for another tenant: room to double, within its share."""
        held = self.held[tenant]
        return max(held, min(math.floor(share), max(1, 2 * held)))

    def active(self, now: float) -> list[str]:
        """Tenants with a share: those with a stream, or who asked for one not long ago."""
        return [
            tenant
            for tenant in self._weights
            if self.held[tenant] or self._asked(tenant, now, self._memory_s)
        ]

    def part(self, of: int, tenant: str, now: float, within_s: float) -> int:
        """The tenant's part, at least one, of what tenants share who asked within `within_s`."""
        others = [t for t in self._seen_s if t != tenant and self._asked(t, now, within_s)]
        weight = self._weights[tenant]
        weights = weight + math.fsum(self._weights[t] for t in others)
        return max(1, math.ceil(of * weight / weights))

    def _asked(self, tenant: str, now: float, within_s: float) -> bool:
        return now - self._seen_s.get(tenant, -math.inf) <= within_s
