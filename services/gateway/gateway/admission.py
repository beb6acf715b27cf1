"""Who may speak now. Refusing at once is kinder than serving everybody badly."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from gateway.catalogue import Catalogue
from gateway.errors import Draining, RateLimited, Unavailable
from gateway.fading import Fading
from gateway.fairness import Shares, Standing
from gateway.floods import Crowding, Floods
from gateway.forecast import Forecast, forecast
from gateway.keys import Allowance, KeyRing
from gateway.settings import GatewaySettings
from ttscommon.errors import AntiphonError, Overloaded
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics

_BORROWED_PRIORITY: Final = 3
_HOLD_WEIGHT: Final = 0.1
_FIRST_HOLD_S: Final = 2.0
_BIAS_WEIGHT: Final = 0.2
_BIAS_HALF_LIFE_S: Final = 5.0
_BIAS_MAX: Final = 4.0
_CROWDING: Final = 2.0
_BORROWED_CROWDING: Final = 1.3


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
    catalogue: Catalogue
    metrics: Metrics
    keys: KeyRing = field(default_factory=KeyRing)
    clock: Callable[[], float] = time.monotonic
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()
        tenants = self.keys.tenants
        self._shares = Shares({name: tenant.weight for name, tenant in tenants.items()})
        self._allowances = {name: Allowance(tenant) for name, tenant in tenants.items()}
        self._hold_s = _FIRST_HOLD_S
        # How much longer first sounds take than predicted.
        self._bias = Fading(_BIAS_WEIGHT, _BIAS_HALF_LIFE_S)
        self._floods = Floods()
        self._crowding = Crowding()
        self.silent: Counter[str] = Counter()

    @property
    def streams(self) -> int:
        """Streams in work at this gateway."""
        return self._shares.total

    @contextmanager
    def stream(self, request: SpeechRequest, *, resumed: bool = False) -> Iterator[Grant]:
        """Hold a place for `request`; raises what `admit` raises.

        One that is `resumed` was admitted before: it is only counted.
        """
        try:
            grant = self._known(request) if resumed else self.admit(request)
        except AntiphonError as error:
            self.metrics.refused.labels(error.code).inc()
            if isinstance(error, Overloaded):
                self._floods.refused(request.tenant, self.clock())
            raise
        began_s = self.clock()
        self._shares.take(grant.tenant)
        self.silent[grant.tenant] += 1
        self.catalogue.own[request.model] += 1
        if resumed:
            self.catalogue.adopt(request.model)
        self.idle.clear()
        self.metrics.active.labels("gateway").inc()
        try:
            yield grant
        finally:
            self._shares.give_back(grant.tenant)
            grant.silence_ends()
            self.catalogue.own[request.model] -= 1
            self._hold_s += _HOLD_WEIGHT * (self.clock() - began_s - self._hold_s)
            if not self.streams:
                self.idle.set()
            self.metrics.active.labels("gateway").dec()

    def admit(self, request: SpeechRequest) -> Grant:
        """Raises Overloaded, RateLimited, Unavailable or Draining if it may not start now."""
        now = self.clock()
        tenant = request.tenant
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        ahead = self._forecast(request.model)
        self._check_limits(tenant, len(request.text), now)
        capacity = min(self.settings.max_streams, self.streams + ahead.room)
        standing = self._shares.judge(tenant, capacity, now)
        predicted_s = self._check_prediction(ahead, standing, now)
        self._check_flood(tenant, now)
        self._allowances[tenant].request(len(request.text), now)
        borrowed = standing is Standing.BORROWED
        priority = min(request.priority, _BORROWED_PRIORITY) if borrowed else request.priority
        return Grant(self, tenant, priority, predicted_s, ahead.alone_s, not self.streams)

    def _known(self, request: SpeechRequest) -> Grant:
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        return Grant(self, request.tenant, request.priority, None)

    def learn(self, grant: Grant, ttfp_s: float) -> None:
        """Compare a prediction with what came of it."""
        now = self.clock()
        if grant.predicted_s:
            ratio = ttfp_s / grant.predicted_s
            self._bias.learn(min(max(ratio, 1.0), _BIAS_MAX), now)
            self._crowding.learn(ttfp_s / grant.alone_s, now, alone=grant.alone)

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
            self.silent[tenant] or self._crowding.crowded(now)
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
        if standing is Standing.BORROWED and ahead.ttfp_s > _BORROWED_CROWDING * ahead.alone_s:
            # Borrowed streams fill the batches that somebody else's first sound has to wait for.
            raise _share_used(retry_s)
        bias = self._bias.now(now)
        predicted_s = ahead.ttfp_s * bias
        # Where even a request alone is too slow for the target, turning it away helps nobody.
        limit_s = max(self.settings.ttfp_target_s, _CROWDING * ahead.alone_s * bias)
        if predicted_s > limit_s:
            raise Overloaded(
                f"the first sound would take {predicted_s:.2f} s, more than {limit_s:.2f} s",
                retry_after_s=retry_s,
            )
        return ahead.ttfp_s


def _share_used(retry_s: float) -> Overloaded:
    return Overloaded("this caller has its share of the streams", retry_after_s=retry_s)
