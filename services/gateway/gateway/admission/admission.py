"""Admission: an early refusal serves clients better than a stream that runs dry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gateway.admission.control import AdmissionControl, Applicant, Capacity, Grant
from gateway.admission.limits import KeyLimits
from gateway.admission.peers import GatewayUse, Peers, Turns
from gateway.admission.queueing import OfflineStreams, WaitingRoom
from gateway.admission.refusals import Refusals
from gateway.errors import Draining, RateLimited, unserved
from gateway.keys import KeyRing
from gateway.settings import GatewaySettings
from ttscommon.cluster.admission import AdmissionLimits, Judge, Streams
from ttscommon.cluster.admission.judge import Standing, share_used
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import AntiphonError, Overloaded
from ttscommon.wire.subjects import STAGES

# Between two looks while there is nothing to look at.
_IDLE_LOOK_S: Final = 1.0


@dataclass
class Admission:
    """Admits requests to this gateway by the playback that its listeners have left.

    idle: set while no stream runs. changed: set when the other gateways are to hear of something.
    acquainted: set once they have told what they hold.
    """

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
        weights = {name: tenant.weight for name, tenant in tenants.items()}
        self.judge = Judge(weights, self.settings.ttfp_target_s, self.limits.loop)
        self.control = AdmissionControl(
            *(self.judge, self.catalogue, self.peers),
            *(self.limits, self.settings.utilisation, self.metrics),
            gives_up=self.settings.admission == "on",
        )
        self._shares = self.judge.shares
        self._limits = KeyLimits(tenants, self.peers, self.control.held)
        self.turns = Turns(self.peers)
        self._refusals = Refusals(self.metrics, self.limits.retry_s)
        self._room = WaitingRoom(self.settings.max_waiting)
        self.offline = OfflineStreams(
            self.catalogue, self.peers, self.settings.job_spare_slots, self.control.is_short
        )
        self.control.stop_jobs = self.offline.give_way_all
        self._looked = False

    def keys_changed(self) -> None:
        """The key ring has other tenants, or the same with other rights."""
        tenants = self.keys.tenants
        self._shares.reweigh({name: tenant.weight for name, tenant in tenants.items()})
        self._limits.update(tenants)

    @property
    def streams(self) -> int:
        """Streams of this gateway, those that wait for text among them."""
        return len(self.control.running)

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
            self.refuse(applicant, error)
            raise
        began_s = grant.began_s = self.clock()
        grant.characters = applicant.characters
        self.control.running[id(grant)] = grant
        self.turns.took(applicant.kinds, began_s)
        if grant.silent:
            grant.among = self.control.streams(applicant.model).silent
        self.woke(grant)
        if applicant.resumed:
            self.catalogue.adopt(applicant.model)
        self.idle.clear()
        self.metrics.active.labels("gateway", *listener).inc()
        try:
            yield grant
        finally:
            self._leave(grant)
            self.metrics.active.labels("gateway", *listener).dec()

    def _leave(self, grant: Grant) -> None:
        grant.rest()
        del self.control.running[id(grant)]
        self._refusals.ends.learn(grant.characters, self.clock() - grant.began_s)
        self._room.call_next()
        if not self.streams:
            self.idle.set()

    def refuse(self, applicant: Applicant, error: AntiphonError) -> None:
        """There is no room for a request, or not any more: it may have been admitted before."""
        self._refusals.take(applicant, error, self.control.running.values(), self.clock())

    async def run(self) -> None:
        """Look at the streams several times a second, until cancelled."""
        while True:
            await asyncio.sleep(self.limits.look_s)
            for model in self.look():
                await self.control.relieve(model)
            if not self._looked and not self._room:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE_LOOK_S):
                        await self.changed.wait()

    def look(self) -> Sequence[str]:
        """Move the limits by what listeners have left, and let in requests that wait for that.

        Returns the models of which a stream is to be given up.
        """
        now, dry = self.clock(), list[str]()
        for grant in list(self.control.running.values()):
            if grant.paused_s(now) >= self.limits.rest_s:
                grant.rest()
        # One more look after the last stream has ended: metrics are to show that it has.
        looks = bool(self.control.running or self.peers)
        if looks or self._looked:
            dry = self.control.look(now)
            if self.peers and self.control.has_news(now):
                self.changed.set()
        self._looked = looks
        self._room.call_next()
        self._refusals.flush(now)
        return dry

    @contextmanager
    def _offline_stream(self, applicant: Applicant) -> Iterator[Grant]:
        """`stream` for one that takes the slots that listeners leave; the caller has looked whether
        there are any. Raises Draining, InvalidApiKey, RateLimited.
        """
        tenant, model, now = applicant.tenant, applicant.model, self.clock()
        self._require_open(tenant)
        self._limits.check(tenant, applicant.characters, now, offline=self.offline.tenants[tenant])
        self._limits.use(tenant, 1, applicant.characters, now)
        grant = Grant(self, tenant, applicant.priority, model, silent=False)
        gauge = self.metrics.offline.labels(model)
        with self.offline.stream(model, tenant), gauge.track_inprogress():
            self.changed.set()
            try:
                yield grant
            finally:
                self.changed.set()

    async def refuse_early(self, tenant: str, max_wait_s: float) -> None:
        """Refuse a request of which only the key is known, where no model has room for it or gets
        any while it is held. Raises as `admit`.
        """
        applicants = [Applicant(tenant, m, max_wait_s=max_wait_s) for m in self.catalogue.served()]
        if not applicants:
            return
        await self.wait(*applicants)
        if (objection := self._objection(applicants)) is not None:
            self.refuse(applicants[0], objection)
            raise objection

    async def wait(self, *applicants: Applicant) -> bool:
        """Wait until one of the applicants of a request may start, for a moment or for as long as
        its caller asks; returns whether it had to wait. A request of a key with limits also waits
        until this gateway knows what the others hold.
        """
        one, most_s = applicants[0], self.settings.max_wait_s
        if one.resumed or one.offline:
            return False
        if self._limits.limited(one.tenant):
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.acquaintance_s):
                    await self.acquainted.wait()
        if most_s <= 0:
            return False
        model = one.model if len(applicants) == 1 else ""
        waiting, now = len(self._room), self.clock()
        moment_s = max(self.control.hold_s(each.model, waiting, now) for each in applicants)
        most_s = min(max(one.max_wait_s, moment_s), most_s)
        objection = partial(self._objection, applicants)
        try:
            return await self._room.wait(one.tenant, model, most_s, objection)
        except AntiphonError as error:
            self.refuse(one, error)
            raise

    def _objection(self, applicants: Sequence[Applicant]) -> Overloaded | None:
        """Why none of them may start now, where waiting can help. Raises what `admit` does where it
        cannot: a moment is no help to a key that has used up its minute.
        """
        found: Overloaded | None = None
        for applicant in applicants:
            try:
                self._standing(applicant, self.clock())
            except Overloaded as objection:
                used_up = type(objection) is RateLimited
                if used_up and not applicant.max_wait_s:
                    raise
                found = found or objection.with_traceback(None)
            else:
                return None
        return found

    def report(self, gateway: str, *, whole: bool) -> GatewayUse:
        """What the other gateways are to know of this one."""
        now = self.clock()
        streams = {model: held for model, held in self.catalogue.own.items() if held}
        tenants = self._limits.report(now, everything=whole)
        recent, word = self.turns.say(now)
        offline, loops = self.offline.held, self.control.report()
        return GatewayUse(
            gateway, streams, recent, tenants, whole, word, offline=offline, loops=loops
        )

    def hear(self, use: GatewayUse) -> None:
        """Another gateway says what it holds and has used."""
        now = self.clock()
        for usage in self.peers.hear(use, now):
            self._limits.hear(usage, now)
        self.control.hear(use.loops)
        for model in self.offline.held:
            self.offline.make_room(model)

    def admit(self, applicant: Applicant) -> Grant:
        """Raises Overloaded, RateLimited, Unavailable or Draining if it may not start now, and
        InvalidApiKey if its key was revoked, or has expired, since its socket was opened.

        A resumed request was admitted before, so no room is asked for; the caller's limits and its
        share of this gateway hold for it as for a new one.
        """
        tenant, now = applicant.tenant, self.clock()
        if applicant.resumed:
            return self._admit_again(applicant, now)
        standing = self._standing(applicant, now)
        self._limits.use(tenant, 1, applicant.characters, now)
        priority = applicant.priority
        if standing is Standing.BORROWED:
            priority = min(priority, self.limits.borrowed_priority)
        return Grant(self, tenant, priority, applicant.model)

    def _require_open(self, tenant: str) -> None:
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        self.keys.check(tenant)

    def _standing(self, applicant: Applicant, now: float) -> Standing:
        """How a new request stands; takes nothing. Raises as `admit`."""
        tenant, model = applicant.tenant, applicant.model
        self._require_open(tenant)
        self._require_workers(model)
        self._limits.check(tenant, applicant.characters, now)
        standing, streams = Standing.WITHIN, None
        if self.settings.admission == "on":
            streams = self.control.streams(model)
            standing = self.judge.check(model, streams, tenant, self._most_active, now)
        elif self._shares.total >= self._most_active:
            raise Overloaded("there is no room for another stream now")
        if self.peers and not all(
            self.turns.has_come(kind, free, now)
            for kind, free in self._free(applicant, streams, now)
        ):
            raise Overloaded("other gateways come before another stream")
        return standing

    @property
    def _most_active(self) -> int:
        """Streams that this gateway may have beside those that wait for text."""
        return self.settings.max_streams - self.streams + self._shares.total

    def _admit_again(self, applicant: Applicant, now: float) -> Grant:
        self._require_open(applicant.tenant)
        self._limits.check(applicant.tenant, 0, now)
        standing = self._shares.judge(applicant.tenant, self._most_active, now)
        if standing is Standing.OVER:
            raise share_used()
        self._limits.use(applicant.tenant, 1, 0, now)
        return Grant(self, applicant.tenant, applicant.priority, applicant.model, silent=False)

    def sounded(self, grant: Grant) -> None:
        """A stream has its first sound. The time that this took says how many may wait for theirs
        at once, unless the stream may have waited for its text.
        """
        self.judge.silent[grant.tenant] -= 1
        if grant.writing is None:
            took_s = self.clock() - grant.began_s
            self.judge.loop(grant.model).sounded(took_s, grant.among)
        self._room.call_next()

    def rested(self, grant: Grant) -> None:
        """A stream has ended, or holds nothing but its place in its key's limits."""
        self._shares.give_back(grant.tenant)
        self.judge.silent[grant.tenant] -= grant.silent
        self.catalogue.own[grant.model] -= 1
        self.changed.set()

    def woke(self, grant: Grant) -> None:
        """A stream begins, or goes on that rested."""
        self.judge.take(grant.tenant, silent=grant.silent)
        self.catalogue.own[grant.model] += 1
        self.offline.make_room(grant.model)
        self.changed.set()

    def charge(self, tenant: str, characters: int) -> None:
        """More text of a stream came; it counts against its key's characters."""
        self._limits.use(tenant, 0, characters, self.clock())
        self.changed.set()

    def _require_workers(self, model: str) -> None:
        view = self.catalogue.capacity(model)
        for stage, replicas in zip(STAGES, view.stages, strict=True):
            if not replicas:
                raise unserved(model, stage)

    def _free(
        self, applicant: Applicant, streams: Streams | None, now: float
    ) -> Iterator[tuple[str, float]]:
        """How much is left of each thing that all gateways take from together."""
        model, key_streams, key_requests = applicant.kinds
        if streams is not None:
            yield model, self.judge.room(applicant.model, streams, now)
        if (free := self._limits.free_streams(applicant.tenant)) is not None:
            yield key_streams, free
        left = self._limits.free_requests(applicant.tenant, applicant.characters, now)
        if left is not None:
            yield key_requests, left
