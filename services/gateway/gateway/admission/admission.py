"""Admission: an immediate refusal serves clients better than a late stream."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import structlog

from gateway.admission.keys import KeyRing, TextLimits
from gateway.admission.limits import KeyLimits
from gateway.admission.offline import OfflineStreams
from gateway.admission.pauses import Pauses
from gateway.admission.peers import GatewayUse, Peers
from gateway.admission.queueing import WaitingRoom
from gateway.admission.terms import Applicant, Capacity
from gateway.admission.turns import Turnstile
from gateway.errors import Draining, RateLimited, StreamsUsed, Unavailable
from gateway.settings import GatewaySettings
from ttscommon.cluster.admission import AdmissionLimits, Ends, Forecast, Judge, forecast
from ttscommon.cluster.admission.predictions import share_used
from ttscommon.cluster.admission.shares import Standing
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import AntiphonError, Overloaded, ShareUsed

_LONGEST_RETRY_S: Final = 60

log_ = structlog.get_logger(__name__)


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
    model: str = ""
    characters: int = 0
    began_s: float = 0.0
    resting: bool = False
    touched_s: float = 0.0
    writing: Callable[[], float | None] | None = None

    def follow(self, writing: Callable[[], float | None]) -> None:
        """Its text is still being written. `writing`: when some came last; None at its end."""
        self.writing = writing
        self.admission.pauses.follow(self)

    def paused_s(self, now: float) -> float:
        """For how long it has waited for text; 0 if it does not."""
        text_s = self.writing() if self.writing is not None else None
        if text_s is None or self.resting:
            return 0.0
        return now - max(text_s, self.touched_s)

    def spoke(self, ttfp_s: float) -> None:
        """Its first sound came after `ttfp_s`: the next predictions learn from it."""
        self.admission.learn(self, ttfp_s)

    def silence_ends(self) -> None:
        """It has no first sound to wait for any more; safe to call twice."""
        if self.silent:
            self.silent = False
            self.admission.judge.silent[self.tenant] -= 1

    def text(self, characters: int) -> None:
        """So much of its text came after the request itself."""
        self.wake()
        self.characters += characters
        self.admission.charge(self.tenant, characters)

    def rest(self) -> None:
        """It waits for text, and the stages have given its slots back; safe to call twice."""
        if not self.resting:
            self.resting = True
            self.admission.rested(self)

    def wake(self) -> None:
        """It goes on, whatever room there is; safe to call twice."""
        self.touched_s = self.admission.clock()
        if self.resting:
            self.resting = False
            self.admission.woke(self)


@dataclass
class Admission:
    """Counts the streams of this gateway and predicts what the next one would get."""

    settings: GatewaySettings
    catalogue: Capacity
    metrics: GatewayMetrics
    keys: KeyRing = field(default_factory=KeyRing)
    clock: Callable[[], float] = time.monotonic
    limits: AdmissionLimits = AdmissionLimits()  # noqa: RUF009 -- frozen
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    peers: Peers = field(default_factory=Peers)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    acquainted: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()
        self.acquainted.set()
        tenants = self.keys.tenants
        self._resting: Counter[str] = Counter()
        self.pauses = Pauses(self.clock, self.limits.pause_s, self.limits.rest_s)
        weights = {name: tenant.weight for name, tenant in tenants.items()}
        self.judge = Judge(weights, self.limits, self.settings.ttfp_target_s)
        self._shares = self.judge.shares
        self._limits = KeyLimits(tenants, self.peers, self._held)
        self._turnstile = Turnstile(self.peers, self.clock)
        self._ends = Ends()
        self._running: dict[int, Grant] = {}
        self._room = WaitingRoom(self.settings.max_waiting)
        self.offline = OfflineStreams(self.catalogue, self.peers, self.settings.job_spare_slots)

    def keys_changed(self) -> None:
        """The key ring has other tenants, or the same with other rights."""
        tenants = self.keys.tenants
        self._shares.reweigh({name: tenant.weight for name, tenant in tenants.items()})
        self._limits.take(tenants)

    @property
    def streams(self) -> int:
        """Streams of this gateway, those that wait for text among them."""
        return self._shares.total + self._resting.total()

    def _held(self, tenant: str) -> int:
        return self._shares.held[tenant] + self._resting[tenant]

    @contextmanager
    def stream(self, applicant: Applicant) -> Iterator[Grant]:
        """Hold a place for a request; raises what `admit` raises."""
        if applicant.offline:
            with self._offline_stream(applicant) as grant:
                yield grant
            return
        listener = self.metrics.listener(applicant.model, applicant.tenant)
        try:
            grant = self.admit(applicant)
        except AntiphonError as error:
            self.metrics.refused.labels(error.code, *listener).inc()
            log_.info(
                "request.refused",
                tenant=applicant.tenant,
                model=applicant.model,
                code=error.code,
                reason=error.message,
            )
            if isinstance(error, Overloaded):
                self.judge.refused(applicant.tenant, self.clock())
                self._say_when(error, applicant)
            raise
        began_s = grant.began_s = self.clock()
        grant.characters = applicant.characters
        self._running[id(grant)] = grant
        self._turnstile.took(applicant.kinds, began_s)
        self.changed.set()
        self.judge.take(grant.tenant)
        self.catalogue.own[applicant.model] += 1
        self.offline.heed(applicant.model)
        if applicant.resumed:
            self.catalogue.adopt(applicant.model)
        self.idle.clear()
        self.metrics.active.labels("gateway", *listener).inc()
        try:
            yield grant
        finally:
            self.pauses.forget(grant)
            del self._running[id(grant)]
            grant.wake()
            self._shares.give_back(grant.tenant)
            grant.silence_ends()
            self.catalogue.own[applicant.model] -= 1
            self.changed.set()
            held_s = self.clock() - began_s
            self.judge.held(held_s)
            self._ends.learn(grant.characters, held_s)
            self._room.room()
            if not self.streams:
                self.idle.set()
            self.metrics.active.labels("gateway", *listener).dec()

    @contextmanager
    def _offline_stream(self, applicant: Applicant) -> Iterator[Grant]:
        """The same for one that takes what others leave: its caller looked whether they leave any.

        Raises Draining, InvalidApiKey, RateLimited.
        """
        tenant, model, now = applicant.tenant, applicant.model, self.clock()
        self._require_open(tenant)
        self._limits.check(tenant, applicant.characters, now, offline=self.offline.tenants[tenant])
        self._limits.request(tenant, applicant.characters, now)
        grant = Grant(self, tenant, applicant.priority, None, silent=False, model=model)
        gauge = self.metrics.offline.labels(model)
        with self.offline.stream(model, tenant), gauge.track_inprogress():
            self.changed.set()
            try:
                yield grant
            finally:
                self.changed.set()

    def _say_when(self, error: Overloaded, applicant: Applicant) -> None:
        """Tell the caller when what is in its way is expected to have ended.

        What a key has used up of its minute comes back by itself: that is told already.
        """
        if isinstance(error, RateLimited) and not isinstance(error, StreamsUsed):
            return
        own = isinstance(error, StreamsUsed | ShareUsed)
        mine = [g for g in self._running.values() if g.tenant == applicant.tenant]
        there = [g for g in self._running.values() if g.model == applicant.model]
        kind = applicant.kinds[1] if own and mine else applicant.kinds[0]
        wait_s = self._ends.promise(kind, mine if own and mine else there, self.clock())
        if wait_s is not None:
            error.retry_after_s = min(max(error.retry_after_s, wait_s), _LONGEST_RETRY_S)

    async def wait(self, applicant: Applicant) -> bool:
        """Wait until there is room, as long as the caller would; whether it had to."""
        most_s = min(applicant.max_wait_s, self.settings.max_wait_s)
        if most_s <= 0 or applicant.resumed:
            return False
        ask = partial(self._objection, applicant)
        return await self._room.wait(applicant.tenant, most_s, ask) > 0

    def _objection(self, applicant: Applicant) -> Overloaded | None:
        """Why it may not start now, of what time can mend; raises the rest of what `admit` does."""
        try:
            self._judge(applicant, self.clock())
        except Overloaded as objection:
            return objection.with_traceback(None)
        return None

    async def turn(self, applicant: Applicant) -> Applicant:
        """Wait while this gateway has taken its part of what the other gateways see as free too,
        and, for a key that has limits, until it knows of them. Where there is no room, wait for the
        slots of streams whose text pauses.
        """
        if applicant.resumed or applicant.offline:
            return applicant
        await self.pauses.make_room(lambda: self._is_full(applicant.model))
        if self._limits.limited(applicant.tenant):
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.acquaintance_s):
                    await self.acquainted.wait()
        if not self.peers:
            return applicant
        free = await self._turnstile.wait(lambda: dict(self._free(applicant)))
        return applicant if free else replace(applicant, crowded=True)

    def _is_full(self, model: str) -> bool:
        if self.settings.admission != "predict":
            return False
        with suppress(Unavailable):  # which admit says
            return self._forecast(model).room <= 0
        return False

    def use(self, gateway: str, *, whole: bool) -> GatewayUse:
        """What the other gateways are to know of this one."""
        now = self.clock()
        streams = {model: held for model, held in self.catalogue.own.items() if held}
        tenants = self._limits.use(now, everything=whole)
        recent, word = self._turnstile.say(now)
        offline = self.offline.held
        return GatewayUse(gateway, streams, recent, tenants, whole, word, offline=offline)

    def echo(self, use: GatewayUse) -> None:
        """This gateway's own word came back from the broker: the others have it."""
        self._turnstile.echo(use.word, use.recent)

    def hear(self, use: GatewayUse) -> None:
        """Another gateway says what it holds and has used."""
        now = self.clock()
        for spent in self.peers.hear(use, now):
            self._limits.spent(spent, now)
        for model in self.offline.held:
            self.offline.heed(model)

    def admit(self, applicant: Applicant) -> Grant:
        """Raises Overloaded, RateLimited, Unavailable or Draining if it may not start now, and
        InvalidApiKey if its key was revoked, or has expired, since its socket was opened.

        A resumed request was admitted before, so nothing is predicted for it; the caller's limits
        and its share of this gateway hold for it as for a new one.
        """
        now = self.clock()
        tenant = applicant.tenant
        if applicant.resumed:
            self._require_open(tenant)
            return self._admit_again(applicant, now)
        ahead, standing, predicted_s = self._judge(applicant, now)
        self._limits.request(tenant, applicant.characters, now)
        priority = applicant.priority
        if standing is Standing.BORROWED:
            priority = min(priority, self.limits.borrowed_priority)
        alone = not self._shares.total
        return Grant(
            self, tenant, priority, predicted_s, ahead.alone_s, alone, model=applicant.model
        )

    def _require_open(self, tenant: str) -> None:
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        self.keys.check(tenant)

    def _judge(self, applicant: Applicant, now: float) -> tuple[Forecast, Standing, float | None]:
        """What a new request would get, and how it stands; takes nothing. Raises as `admit`."""
        tenant = applicant.tenant
        self._require_open(tenant)
        ahead = self._forecast(applicant.model)
        self._limits.check(tenant, applicant.characters, now)
        if applicant.crowded:
            raise Overloaded("there is no room for another stream now")
        standing, predicted_s = self.judge.check(ahead, tenant, self._most_active, now)
        return ahead, standing, predicted_s

    @property
    def _most_active(self) -> int:
        """Streams that this gateway may have beside those that wait for text."""
        return self.settings.max_streams - self._resting.total()

    def _admit_again(self, applicant: Applicant, now: float) -> Grant:
        self._limits.check(applicant.tenant, 0, now)
        standing = self._shares.judge(applicant.tenant, self._most_active, now)
        if standing is Standing.OVER:
            raise share_used(1.0)
        self._limits.request(applicant.tenant, 0, now)
        return Grant(self, applicant.tenant, applicant.priority, None, model=applicant.model)

    def learn(self, grant: Grant, ttfp_s: float) -> None:
        """Compare a prediction with what came of it."""
        if grant.predicted_s:
            alone = grant.alone
            self.judge.learn(ttfp_s, grant.predicted_s, grant.alone_s, self.clock(), alone=alone)

    def rested(self, grant: Grant) -> None:
        """A stream holds nothing but its place in its key's limits."""
        self._shares.give_back(grant.tenant)
        self._resting[grant.tenant] += 1
        self.catalogue.own[grant.model] -= 1
        self.changed.set()

    def woke(self, grant: Grant) -> None:
        self._resting[grant.tenant] -= 1
        self._shares.take(grant.tenant)
        self.catalogue.own[grant.model] += 1
        self.offline.heed(grant.model)
        self.changed.set()

    def text_limits(self, tenant: str) -> TextLimits:
        """How a text of the tenant's may come."""
        return self.keys.tenants[tenant].text_limits(self.settings)

    def no_slot(self, model: str, waiting: int) -> Overloaded:
        """What a request is told that waited for a slot in vain, as one of so many."""
        slots = sum(replica.slots for replica in self.catalogue.capacity(model).talkers)
        wait_s = math.ceil(waiting * self.judge.hold_s / max(1, slots))
        retry_s = float(min(max(1, wait_s), _LONGEST_RETRY_S))
        return Overloaded("no slot became free in time", retry_after_s=retry_s)

    def charge(self, tenant: str, characters: int) -> None:
        self._limits.text(tenant, characters, self.clock())
        self.changed.set()

    def _forecast(self, model: str) -> Forecast:
        view = self.catalogue.capacity(model)
        for stage, replicas in (("talker", view.talkers), ("vocoder", view.vocoders)):
            if not replicas:
                raise Unavailable(f"no live {stage} serves '{model}'", param="model")
        if self.settings.admission == "off":
            return Forecast(None, 0.0, self.settings.max_streams - self.streams, self.judge.hold_s)
        return forecast(view, self.judge.hold_s, self.settings.utilisation)

    def _free(self, applicant: Applicant) -> Iterator[tuple[str, float]]:
        """What is left of all that gateways take from together, by kind."""
        if self.settings.admission == "predict":
            with suppress(Unavailable):  # which admit says
                yield applicant.kinds[0], self._forecast(applicant.model).room
        streams = self._limits.free_streams(applicant.tenant)
        requests = self._limits.free_requests(applicant.tenant, applicant.characters, self.clock())
        for kind, free in zip(applicant.kinds[1:], (streams, requests), strict=True):
            if free is not None:
                yield kind, free
