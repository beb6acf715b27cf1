"""Which requests may start now. An immediate refusal serves clients better than a late stream."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from gateway.admission.decaying import DecayingAverage
from gateway.admission.floods import Congestion, FloodDetector, FloodLimits
from gateway.admission.forecast import Forecast, View, forecast
from gateway.admission.keys import Allowance, KeyRing
from gateway.admission.shares import Shares, Standing
from gateway.errors import Draining, RateLimited, Unavailable
from gateway.settings import GatewaySettings
from ttscommon.errors import AntiphonError, Overloaded
from ttscommon.metrics import GatewayMetrics


@dataclass(frozen=True)
class AdmissionLimits:
    """How admission weighs what it sees. Origin: docs/performance.md, "Overload, floods".

    A stream beyond its tenant's share gets `borrowed_priority`. How long a stream keeps its slot
    is a moving average that starts at `first_hold_s`. Predictions are corrected by at most
    `bias_most`. A first sound may take `alone_factor` times what it takes a request alone before
    it is refused, a borrowed stream's `borrowed_factor`.
    """

    borrowed_priority: int = 3
    hold_weight: float = 0.1
    first_hold_s: float = 2.0
    bias_weight: float = 0.2
    bias_half_life_s: float = 5.0
    bias_most: float = 4.0
    alone_factor: float = 2.0
    borrowed_factor: float = 1.3
    floods: FloodLimits = field(default_factory=FloodLimits)


@dataclass(frozen=True)
class Applicant:
    """A request at the door. `resumed`: it was admitted before, here or at another gateway."""

    tenant: str
    model: str
    characters: int = 0
    priority: int = 5
    resumed: bool = False


class Capacity(Protocol):
    """What the live replicas can take; see Catalogue."""

    own: Counter[str]

    def capacity(self, model: str) -> View: ...

    def adopt(self, model: str) -> None: ...


@dataclass
class Grant:
    """A place for one request. `priority` is what the stages are to give it."""

    admission: Admission
    tenant: str
    priority: int
    predicted_s: float | None
    alone_s: float = 0.0
    alone: bool = False
    silent: bool = True

    def spoke(self, ttfp_s: float) -> None:
        """Its first sound came after `ttfp_s`: the next predictions learn from it."""
        self.admission.learn(self, ttfp_s)

    def silence_ends(self) -> None:
        """It has no first sound to wait for any more; safe to call twice."""
        if self.silent:
            self.silent = False
            self.admission.silent[self.tenant] -= 1

    def text(self, characters: int) -> None:
        """So much of its text came after the request itself."""
        self.admission.charge(self.tenant, characters)


@dataclass
class Admission:
    """Counts the streams of this gateway and predicts what the next one would get."""

    settings: GatewaySettings
    catalogue: Capacity
    metrics: GatewayMetrics
    keys: KeyRing = field(default_factory=KeyRing)
    clock: Callable[[], float] = time.monotonic
    limits: AdmissionLimits = AdmissionLimits()
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()
        tenants = self.keys.tenants
        self._shares = Shares({name: tenant.weight for name, tenant in tenants.items()})
        self._allowances = {name: Allowance(tenant) for name, tenant in tenants.items()}
        self._hold_s = self.limits.first_hold_s
        # How much longer first sounds take than predicted.
        self._bias = DecayingAverage(self.limits.bias_weight, self.limits.bias_half_life_s)
        self._floods = FloodDetector(self.limits.floods)
        self._congestion = Congestion(self.limits.floods)
        self.silent: Counter[str] = Counter()

    @property
    def streams(self) -> int:
        """Streams in work at this gateway."""
        return self._shares.total

    @contextmanager
    def stream(self, applicant: Applicant) -> Iterator[Grant]:
        """Hold a place for a request; raises what `admit` raises."""
        listener = self.metrics.listener(applicant.model, applicant.tenant)
        try:
            grant = self.admit(applicant)
        except AntiphonError as error:
            self.metrics.refused.labels(error.code, *listener).inc()
            if isinstance(error, Overloaded):
                self._floods.refused(applicant.tenant, self.clock())
            raise
        began_s = self.clock()
        self._shares.take(grant.tenant)
        self.silent[grant.tenant] += 1
        self.catalogue.own[applicant.model] += 1
        if applicant.resumed:
            self.catalogue.adopt(applicant.model)
        self.idle.clear()
        self.metrics.active.labels("gateway", *listener).inc()
        try:
            yield grant
        finally:
            self._shares.give_back(grant.tenant)
            grant.silence_ends()
            self.catalogue.own[applicant.model] -= 1
            held_s = self.clock() - began_s
            self._hold_s += self.limits.hold_weight * (held_s - self._hold_s)
            if not self.streams:
                self.idle.set()
            self.metrics.active.labels("gateway", *listener).dec()

    def admit(self, applicant: Applicant) -> Grant:
        """Raises Overloaded, RateLimited, Unavailable or Draining if it may not start now.

        A resumed request was admitted before, so nothing is predicted for it; the caller's limits
        and its share of this gateway hold for it as for a new one.
        """
        now = self.clock()
        tenant = applicant.tenant
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        if applicant.resumed:
            return self._admit_again(applicant, now)
        ahead = self._forecast(applicant.model)
        self._check_limits(tenant, applicant.characters, now)
        capacity = min(self.settings.max_streams, self.streams + ahead.room)
        standing = self._shares.judge(tenant, capacity, now)
        predicted_s = self._check_prediction(ahead, standing, now)
        self._check_flood(tenant, now)
        self._allowances[tenant].request(applicant.characters, now)
        priority = applicant.priority
        if standing is Standing.BORROWED:
            priority = min(priority, self.limits.borrowed_priority)
        return Grant(self, tenant, priority, predicted_s, ahead.alone_s, not self.streams)

    def _admit_again(self, applicant: Applicant, now: float) -> Grant:
        self._check_limits(applicant.tenant, 0, now)
        standing = self._shares.judge(applicant.tenant, self.settings.max_streams, now)
        if standing is Standing.OVER:
            raise _share_used(1.0)
        self._allowances[applicant.tenant].request(0, now)
        return Grant(self, applicant.tenant, applicant.priority, None)

    def learn(self, grant: Grant, ttfp_s: float) -> None:
        """Compare a prediction with what came of it."""
        now = self.clock()
        if grant.predicted_s:
            ratio = ttfp_s / grant.predicted_s
            self._bias.learn(min(max(ratio, 1.0), self.limits.bias_most), now)
            self._congestion.learn(ttfp_s / grant.alone_s, now, alone=grant.alone)

    def charge(self, tenant: str, characters: int) -> None:
        self._allowances[tenant].text(characters, self.clock())

    def _forecast(self, model: str) -> Forecast:
        view = self.catalogue.capacity(model)
        for stage, replicas in (("talker", view.talkers), ("vocoder", view.vocoders)):
            if not replicas:
                raise Unavailable(f"no live {stage} serves '{model}'", param="model")
        if self.settings.admission == "off":
            return Forecast(None, 0.0, self.settings.max_streams - self.streams, self._hold_s)
        return forecast(view, self._hold_s, self.settings.utilisation)

    def _check_limits(self, tenant: str, characters: int, now: float) -> None:
        limit = self.keys.tenants[tenant].streams
        if limit is not None and self._shares.held[tenant] >= limit:
            raise RateLimited(f"all {limit} streams of this key are in use", retry_after_s=1.0)
        self._allowances[tenant].check(characters, now)

    def _check_flood(self, tenant: str, now: float) -> None:
        """A key that floods has one stream at any rate, and more while others do not feel it."""
        if not self._shares.held[tenant]:
            return
        if self._floods.floods(tenant, self._shares.active(now), now) and (
            self.silent[tenant] or self._congestion.congested(now)
        ):
            raise _share_used(1.0)

    def _check_prediction(self, ahead: Forecast, standing: Standing, now: float) -> float | None:
        retry_s = max(1.0, math.ceil(ahead.next_room_s))
        if standing is Standing.OVER:
            if ahead.room <= 0:
                raise Overloaded("there is no room for another stream now", retry_after_s=retry_s)
            raise _share_used(retry_s)
        if ahead.ttfp_s is None:
            return None
        most_s = self.limits.borrowed_factor * ahead.alone_s
        if standing is Standing.BORROWED and ahead.ttfp_s > most_s:
            # Borrowed streams fill the batches that somebody else's first sound has to wait for.
            raise _share_used(retry_s)
        bias = self._bias.now(now)
        predicted_s = ahead.ttfp_s * bias
        # Where even a request alone is too slow for the target, turning it away helps nobody.
        limit_s = max(self.settings.ttfp_target_s, self.limits.alone_factor * ahead.alone_s * bias)
        if predicted_s > limit_s:
            raise Overloaded(
                f"the first sound would take {predicted_s:.2f} s, more than {limit_s:.2f} s",
                retry_after_s=retry_s,
            )
        return ahead.ttfp_s


def _share_used(retry_s: float) -> Overloaded:
    return Overloaded("this caller has its share of the streams", retry_after_s=retry_s)
