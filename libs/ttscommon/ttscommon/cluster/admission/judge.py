"""One gateway's judgement of new streams: the loop, and weighted fair shares of keys. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final

from ttscommon.cluster.admission.loop import Loop, LoopTuning, Streams
from ttscommon.wire.errors import Overloaded, ShareUsed


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


# For so long after it asked a key has a part of the starts.
_ABOUT_S: Final = 2.0
# So many keys have a stream each, however low the limit.
_KEYS: Final = 2


class Judge:
    """Says which requests may start. The caller brings the clock.

    silent: streams of this gateway without sound, by tenant. loops: by model.
    """

    def __init__(self, weights: Mapping[str, float], target_s: float, tuning: LoopTuning) -> None:
        """`weights`: of tenants. `target_s`: how long a first sound may take."""
        self._target_s = target_s
        self._tuning = tuning
        self.shares = Shares(weights)
        self.silent: Counter[str] = Counter()
        self.loops: dict[str, Loop] = {}

    def loop(self, model: str) -> Loop:
        """The model's, which begins with the first question."""
        if model not in self.loops:
            self.loops[model] = Loop(self._target_s, self._tuning)
        return self.loops[model]

    def room(self, model: str, streams: Streams, now: float) -> int:
        """How many more streams of the model there is room for; negative where it has too many."""
        loop = self.loop(model)
        if not loop.limit:
            loop.look(streams, now)
        keys = min(_KEYS, len(self.shares.active(now)), streams.most)
        return max(int(loop.limit), keys) - streams.open

    def hold_s(self, model: str, streams: Streams, waiting: int, now: float) -> float:
        """How long a request that may not start now is held, behind so many that wait already.

        Where there is room for all of them it comes as first sounds do, and a burst is let in.
        """
        room = self.room(model, streams, now)
        return self._target_s if room > waiting else self._tuning.hold_s

    def check(self, model: str, streams: Streams, tenant: str, most: int, now: float) -> Standing:
        """How the tenant's next stream relates to its share.

        `most`: streams that this gateway may have. Takes nothing. Raises Overloaded.
        """
        room = self.room(model, streams, now)
        standing = self.shares.judge(tenant, min(most, self.shares.total + room), now)
        if standing is Standing.OVER:
            if room <= 0 or self.shares.total >= most:
                raise Overloaded("there is no room for another stream now")
            raise share_used()
        self._check_pace(self.loop(model), streams, tenant, standing, now)
        return standing

    def _check_pace(
        self, loop: Loop, streams: Streams, tenant: str, standing: Standing, now: float
    ) -> None:
        """A key's first silent stream waits for no other key's; borrowed ones wait for all."""
        own, starts = self.silent[tenant], loop.starts
        if standing is Standing.BORROWED and streams.silent:
            raise share_used()
        if own >= self.shares.part(starts, tenant, now, _ABOUT_S):
            raise Overloaded("other first sounds come before another stream's")
        if streams.silent >= (starts if own else 2 * starts):
            raise Overloaded("other first sounds come before another stream's")

    def take(self, tenant: str, *, silent: bool = True) -> None:
        """A stream starts. `silent`: it has no sound so far."""
        self.shares.take(tenant)
        self.silent[tenant] += silent


def share_used() -> ShareUsed:
    """A caller with more streams than its share asks for another."""
    return ShareUsed("this caller has its share of the streams", retry_after_s=1.0)
