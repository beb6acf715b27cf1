"""Keeps one key's flood from making another key wait. Pure: the caller brings the clock.

Shares bound how many streams a key holds, not how often it starts one. A key that asks again and
again and is refused has no claim that others hear their first word later, even within its share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ttscommon.cluster.admission.decaying import DecayingAverage


@dataclass(frozen=True)
class FloodLimits:
    """When a key floods and when others feel it. Origin: docs/performance.md, "Overload, floods".

    A key floods for `flood_s` after a refusal, while another key was not refused for `calm_s`.
    First sounds are congested when they take `congested` times what they take in quiet; each
    counts `weight`, and what was learned halves every `half_life_s`.
    """

    flood_s: float = 2.0
    calm_s: float = 10.0
    congested: float = 1.2
    weight: float = 0.3
    half_life_s: float = 1.0


@dataclass
class FloodDetector:
    """Who is refused, and whom that floods."""

    limits: FloodLimits = FloodLimits()
    _refused_s: dict[str, float] = field(default_factory=dict)

    def refused(self, tenant: str, now: float) -> None:
        """`tenant` was just refused."""
        self._refused_s[tenant] = now

    def floods(self, tenant: str, active: Iterable[str], now: float) -> bool:
        """Whether `tenant` was refused just now while another of the `active` is served calmly.

        Where all of them ask for too much, none floods: shares are all there is to be had.
        """
        if now - self._refused_s.get(tenant, -math.inf) > self.limits.flood_s:
            return False
        return any(
            now - self._refused_s.get(other, -math.inf) > self.limits.calm_s
            for other in active
            if other != tenant
        )


class Congestion:
    """How much longer first sounds take lately than in quiet, both as multiples of the forecast.

    In quiet: when no other stream was open. What was seen decays fast, so that congestion that
    went away is noticed without a first sound.
    """

    def __init__(self, limits: FloodLimits = FloodLimits()) -> None:
        self._limits = limits
        self._lately = DecayingAverage(limits.weight, limits.half_life_s)

    @property
    def quiet(self) -> float:
        return self._lately.rest

    def learn(self, ratio: float, now: float, *, alone: bool) -> None:
        """A first sound took `ratio` times what was forecast for a request alone."""
        self._lately.learn(ratio, now)
        if alone:
            self._lately.rest += self._limits.weight * (ratio - self.quiet)

    def congested(self, now: float) -> bool:
        return self._lately.now(now) > self._limits.congested * self.quiet
