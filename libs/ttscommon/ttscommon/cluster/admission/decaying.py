"""A moving average that decays with time. Pure: the caller brings the clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class DecayingAverage:
    """Each value learned counts `weight`; what was learned halves, towards `rest`, by half-life."""

    weight: float
    half_life_s: float
    rest: float = 1.0
    _value: float = field(init=False)
    _at_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._value = self.rest

    def now(self, now: float) -> float:
        """The average at `now` (monotonic seconds)."""
        return self.rest + (self._value - self.rest) * math.exp2(
            (self._at_s - now) / self.half_life_s
        )

    def learn(self, value: float, now: float) -> None:
        """Count `value` in."""
        decayed = self.now(now)
        self._value, self._at_s = decayed + self.weight * (value - decayed), now
