"""Keeps one key's flood from making another key wait. Pure: the caller brings the clock.

Shares bound how many streams a key holds, not how often it starts one. A key that asks again and
again and is refused has no claim that others hear their first word later, even within its share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.fading import Fading

_FLOOD_S: Final = 2.0
_CALM_S: Final = 10.0
_CROWDED: Final = 1.2
_WEIGHT: Final = 0.3
_HALF_LIFE_S: Final = 1.0


@dataclass
class Floods:
    """Who is refused, and whom that floods."""

    _refused_s: dict[str, float] = field(default_factory=dict)

    def refused(self, tenant: str, now: float) -> None:
        self._refused_s[tenant] = now

    def floods(self, tenant: str, active: Iterable[str], now: float) -> bool:
        """Whether `tenant` was refused just now while another of the `active` is served calmly.

        Where all of them ask for too much, none floods: shares are all there is to be had.
        """
        if now - self._refused_s.get(tenant, -math.inf) > _FLOOD_S:
            return False
        return any(
            now - self._refused_s.get(other, -math.inf) > _CALM_S
            for other in active
            if other != tenant
        )


class Crowding:
    """How much longer first sounds take lately than in quiet, both as multiples of the forecast.

    In quiet: when nobody else was spoken to. What was seen is forgotten fast, so that a crowd
    that went away is noticed without anybody's first sound.
    """

    def __init__(self) -> None:
        self._lately = Fading(_WEIGHT, _HALF_LIFE_S)

    @property
    def quiet(self) -> float:
        return self._lately.rest

    def learn(self, ratio: float, now: float, *, alone: bool) -> None:
        """A first sound took `ratio` times what was forecast for a request alone."""
        self._lately.learn(ratio, now)
        if alone:
            self._lately.rest += _WEIGHT * (ratio - self.quiet)

    def crowded(self, now: float) -> bool:
        return self._lately.now(now) > _CROWDED * self.quiet
