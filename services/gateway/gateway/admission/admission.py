"""Admission: an early refusal serves clients better than a stream that runs dry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from gateway.admission.control import AdmissionControl, Applicant, Capacity, Grant, Refusals
from gateway.admission.limits import KeyLimits
from gateway.admission.peers import GatewayUse, Peers, Turns
from gateway.admission.queueing import OfflineStreams, WaitingRoom
from gateway.errors import Draining, RateLimited, StreamsUsed, unserved
from gateway.keys import KeyRing, TextLimits
from gateway.settings import GatewaySettings
from ttscommon.cluster.admission import AdmissionLimits, Ends, Judge, Streams
from ttscommon.cluster.admission.judge import Standing, share_used
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import AntiphonError, Overloaded, ShareUsed
from ttscommon.wire.subjects import STAGES

_LONGEST_RETRY_S: Final = 60
# Between two looks while there is nothing to look at.
_IDLE_LOOK_S: Final = 1.0

log_ = structlog.get_logger(__name__)


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
        self._limits = KeyLimits(tenants, self.peers, self._held)
        self._turns = Turns(self.peers)
        self._ends = Ends()
        self._refusals = Refusals(log_.info)
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

    def _held(self, tenant: str) -> int:
        return sum(grant.tenant == tenant for grant in self.control.running.values())

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
        self._turns.took(applicant.kinds, began_s)
        self.changed.set()
        self.judge.take(grant.tenant, silent=grant.silent)
        if grant.silent:
            grant.among = self.control.streams(applicant.model).silent
        self.catalogue.own[applicant.model] += 1
        self.offline.make_room(applicant.model)
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
        grant.wake()
        if grant.silent:
            self.judge.silent[grant.tenant] -= 1
        del self.control.running[id(grant)]
        self._shares.give_back(grant.tenant)
        self.catalogue.own[grant.model] -= 1
        self.changed.set()
        self._ends.learn(grant.characters, self.clock() - grant.began_s)
        self._room.call_next()
        if not self.streams:
            self.idle.set()

    def refuse(self, applicant: Applicant, error: AntiphonError) -> None:
        """Count and log it, and tell the caller when there may be room; also for a request that was
        admitted and is given up for want of room. The portions of a job are only told.
        """
        if not applicant.offline:
            listener = self.metrics.listener(applicant.model, applicant.tenant)
            self.metrics.refused.labels(error.code, *listener).inc()
            self._refusals.add(applicant.tenant, applicant.model, error.code, error.message)
        if isinstance(error, Overloaded):
            self._say_when(error, applicant)

    async def run(self) -> None:
        """Look at the streams several times a second, until cancelled."""
        while True:
            await asyncio.sleep(self.limits.look_s)
            for model in self.look():
                await self.relieve(model)
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

    async def relieve(self, model: str) -> None:
        """Give up a stream, so that others do not run dry, unless a worker does not answer: it may
        be dying of that stream, and no gateway knows of it yet.
        """
        if await self.catalogue.all_answer(model):
            self.control.give_up(model)

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

    def _say_when(self, error: Overloaded, applicant: Applicant) -> None:
        """Tell the caller when a stream in its way is expected to have ended.

        A key that has used up its minute was told already when it may come back.
        """
        if isinstance(error, RateLimited) and not isinstance(error, StreamsUsed):
            return
        own = isinstance(error, StreamsUsed | ShareUsed)
        mine = [g for g in self.control.running.values() if g.tenant == applicant.tenant]
        there = [g for g in self.control.running.values() if g.model == applicant.model]
        kind = applicant.kinds[1] if own and mine else applicant.kinds[0]
        most_s = _LONGEST_RETRY_S if isinstance(error, StreamsUsed) else self.limits.retry_s
        streams = mine if own and mine else there
        wait_s = self._ends.promise(kind, streams, self.clock(), most_s)
        if wait_s is not None:
            error.retry_after_s = max(error.retry_after_s, wait_s)

    async def refuse_early(self, tenant: str, max_wait_s: float) -> None:
        """Refuse a request of which only the key is known, where no model has room for it or gets
        any while it is held. Raises as `admit`.
        """
        applicants = [Applicant(tenant, m, max_wait_s=max_wait_s) for m in self.catalogue.served()]
        if not applicants:
            return
        await self._hold(applicants)
        if (objection := self._objection(applicants)) is not None:
            self.refuse(applicants[0], objection)
            raise objection

    async def wait(self, applicant: Applicant) -> bool:
        """Wait until there is room, for a moment or for as long as the caller asks. Returns whether
        the request had to wait.
        """
        if applicant.resumed or applicant.offline:
            return False
        return await self._hold([applicant])

    async def _hold(self, applicants: Sequence[Applicant]) -> bool:
        """Wait until one of the applicants of a request may start. A request of a key with limits
        also waits until this gateway knows what the others hold.
        """
        one, most_s = applicants[0], self.settings.max_wait_s
        if self._limits.limited(one.tenant):
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.acquaintance_s):
                    await self.acquainted.wait()
        if most_s <= 0:
            return False
        model = one.model if len(applicants) == 1 else ""
        moment_s = max(self._moment_s(applicant.model) for applicant in applicants)
        most_s = min(max(one.max_wait_s, moment_s), most_s)
        objection = partial(self._objection, applicants)
        try:
            return await self._room.wait(one.tenant, model, most_s, objection)
        except AntiphonError as error:
            self.refuse(one, error)
            raise

    def _moment_s(self, model: str) -> float:
        """How long a request that does not ask to wait is held: at least until a stream that is
        about to rest does.
        """
        now, limits = self.clock(), self.limits
        written = (one for one in self.control.running.values() if one.writing is not None)
        paused_s = max((one.paused_s(now) for one in written), default=0.0)
        rests_s = limits.rest_s - paused_s + limits.look_s if paused_s > limits.pause_s else 0.0
        if self.settings.admission == "off":
            return max(rests_s, limits.loop.hold_s)
        streams = self.control.streams(model)
        return max(rests_s, self.judge.hold_s(model, streams, len(self._room), now))

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
        recent, word = self._turns.say(now)
        offline = self.offline.held
        loops = self.control.report()
        return GatewayUse(
            gateway, streams, recent, tenants, whole, word, offline=offline, loops=loops
        )

    def echo(self, use: GatewayUse) -> None:
        """This gateway's own report came back from the broker: the others have it."""
        self._turns.echo(use.word, use.recent)

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
        now = self.clock()
        tenant = applicant.tenant
        if applicant.resumed:
            self._require_open(tenant)
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
            self._turns.has_come(kind, free, now)
            for kind, free in self._free(applicant, streams, now)
        ):
            raise Overloaded("other gateways come before another stream")
        return standing

    @property
    def _most_active(self) -> int:
        """Streams that this gateway may have beside those that wait for text."""
        return self.settings.max_streams - self.streams + self._shares.total

    def _admit_again(self, applicant: Applicant, now: float) -> Grant:
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
        """A stream holds nothing but its place in its key's limits."""
        self._shares.give_back(grant.tenant)
        self.judge.silent[grant.tenant] -= grant.silent
        self.catalogue.own[grant.model] -= 1
        self.changed.set()

    def woke(self, grant: Grant) -> None:
        """A stream that rested goes on."""
        self.judge.take(grant.tenant, silent=grant.silent)
        self.catalogue.own[grant.model] += 1
        self.offline.make_room(grant.model)
        self.changed.set()

    def text_limits(self, tenant: str) -> TextLimits:
        """How a text of the tenant's may come."""
        return self.keys.tenants[tenant].text_limits(self.settings)

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
