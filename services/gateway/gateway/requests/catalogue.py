"""The catalogue of what live workers offer: their reports, kept fresh, and what is missing."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import structlog

from gateway.admission.peers import Peers
from gateway.errors import ModelLoading, Unavailable, unserved
from gateway.requests.aliases import DEFAULT
from gateway.requests.snapshot import ReplicaSnapshot
from ttscommon.bus import BucketEntry, Bus, Incoming
from ttscommon.cluster.admission.capacity import View
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, MalformedMessage, UnknownModel, UnknownVoice
from ttscommon.wire.replicas import Model, Replica, Voice
from ttscommon.wire.subjects import STAGES

log_ = structlog.get_logger(__name__)

# A model's and a voice's name, as a client says them -> as the catalogue has them now.
Naming: TypeAlias = Callable[[str, str], tuple[str, str]]

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class CatalogueTuning:
    """What workers offer, as gateways see it."""

    poll_s: float = 0.4
    """Between two reads of the reports; replicas report as often, so more would show nothing new.
    """
    again_s: float = 0.2
    """The least time between two refreshes that a doubtful question asks for."""
    reports: int = 6
    """What so many reports in a row say of other gateways' streams is believed."""
    missing_s: float = 3.0
    """How long a worker stays whose report is not found. A broker that was stopped for longer than
    reports live has none when it wakes, until it has caught up.
    """
    ping_s: float = 0.5
    """How long a worker may take to answer; see `all_answer`."""
    turn_s: float = 1.0
    """How long an engine's turn may take, of which an idle one takes half a second."""
    hold_s: float = 0.0
    """How long a request waits for a worker that can speak it, where there is none."""
    known_s: float = 600.0
    """How long a model is known whose last talker is gone: it restarts, or is scaled to nothing."""


@dataclass(frozen=True)
class Report:
    """What a worker said last, and when it was read."""

    replica: Replica
    revision: int
    read_s: float


class Catalogue:
    """Keeps a snapshot of the workers' reports fresh. Without a broker the last one stands."""

    def __init__(
        self,
        bus: Bus,
        default_model: str,
        tuning: CatalogueTuning = CatalogueTuning(),
        peers: Peers | None = None,
    ) -> None:
        """`peers`: the other gateways, which tell of their own streams."""
        self._peers = Peers() if peers is None else peers
        self._reports: dict[str, Report] = {}
        # All reports that were read last, those of dead workers among them.
        self.reports: list[Replica] = []
        self._workers: dict[str, Report] = {}
        # By worker the last report before it was found dead; those that the snapshot leaves out.
        self._dead: dict[str, Report] = {}
        self._gone: set[str] = set()
        self._bus = bus
        self._default_model = default_model
        self._tuning = tuning
        self._refreshed_s = 0.0
        self._refreshing = asyncio.Lock()
        self.snapshot = ReplicaSnapshot()
        self.own: Counter[str] = Counter()
        self.offline: Counter[str] = Counter()
        self.died_s: dict[str, float] = {}
        self._others: dict[str, deque[int]] = {}
        # By model, when it had a talker last.
        self._served_s: dict[str, float] = {}
        # Set once a model has had workers of both stages.
        self.can_speak = asyncio.Event()
        # Called after each refresh.
        self.refreshed: Callable[[], None] = lambda: None

    def served(self) -> Sequence[str]:
        """The models that have both stages."""
        snapshot = self.snapshot
        return [model for model in snapshot.models() if snapshot.live("vocoder", model)]

    def views(self) -> list[tuple[str, View]]:
        """What `capacity` says of every model that has a talker."""
        return [(model, self.capacity(model)) for model in self.snapshot.models()]

    def capacity(self, model: str) -> View:
        """The replicas of `model`, and the streams they hold: our own and our peers' now, and those
        that no living gateway knows of.

        Reports are up to a second old. What they say beyond the gateways' streams may be streams of
        a second ago, so only what they keep saying counts: a gateway may have died.
        """
        talkers = self.snapshot.live("talker", model)
        others = self._peers.streams(model) + min(self._others.get(model, (0,)))
        rate_hz = next((m.frame_rate_hz for r in talkers for m in r.models if m.name == model), 0.0)
        vocoders = self.snapshot.live("vocoder", model)
        return View(talkers, vocoders, self.own[model] + others, rate_hz)

    def adopt(self, model: str) -> None:
        """A stream of another gateway goes on here, and would count twice until the next refresh:
        a gateway may have died, and all of its listeners come at once.
        """
        reports = self._others.get(model, ())
        fewer = (max(0, n - 1) for n in reports)
        self._others[model] = deque(fewer, maxlen=self._tuning.reports)

    async def run(self) -> None:
        """Refresh for ever, and hear of workers that died."""
        subscription: Any = await self._bus.link.subscribe(subjects.gone("*"), self._on_gone)
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(self._tuning.poll_s)
        finally:
            await self._bus.link.unsubscribe(subscription)

    async def _on_gone(self, message: Incoming) -> None:
        self.mark_dead(message.data.decode("ascii", "replace"))

    def mark_dead(self, worker_id: str) -> None:
        """A worker is dead: it has no slots until it reports again.

        The last worker of a model stays until its report expires: requests wait in the queue for
        its successor, which is back within seconds, instead of being refused.
        """
        if worker_id not in self._workers:
            return
        self._dead[worker_id] = last = self._workers[worker_id]
        self.died_s |= {model.name: time.monotonic() for model in last.replica.models}
        replicas = self.snapshot.replicas
        living = ReplicaSnapshot(tuple(r for r in replicas if r.worker_id not in self._dead))
        if living.serves_all_of(self.snapshot):  # a dead worker that stayed is no successor
            self._gone.add(worker_id)
            self.snapshot = ReplicaSnapshot(
                tuple(r for r in replicas if r.worker_id not in self._gone)
            )

    async def all_answer(self, model: str) -> bool:
        """Whether every worker of a model answers and its engine turns, but those that were found
        dead: one that has just died or hangs does not, long before it is found dead.
        """
        workers = (
            replica.worker_id
            for replica in self.snapshot.replicas
            if replica.worker_id not in self._dead
            and any(one.name == model for one in replica.models)
        )
        return all(await asyncio.gather(*map(self._answers, workers)))

    async def _answers(self, worker_id: str) -> bool:
        try:
            took = await self._bus.link.request(subjects.ping(worker_id), b"", self._tuning.ping_s)
        except BusUnavailable:
            return False
        return float(took or 0.0) <= self._tuning.turn_s

    def lacks(self, model: str) -> Unavailable | None:
        """What requests of a model wait for, if a stage has no living worker; else None."""
        for stage in STAGES:
            if any(one.worker_id not in self._dead for one in self.snapshot.live(stage, model)):
                continue
            if model in self.snapshot.loading(stage):
                return ModelLoading(f"a {stage} is loading '{model}'", param="model")
            return unserved(model, stage)
        return None

    async def resolve(
        self, model: str, voice: str, naming: Naming | None = None
    ) -> tuple[Model, Voice]:
        """What a client's names mean; refreshes before it says no. `naming` translates them first.

        Waits for a worker as long as the tuning says. Raises UnknownModel, UnknownVoice or
        Unavailable.
        """
        until_s = time.monotonic() + self._tuning.hold_s
        while True:
            try:
                return await self._certain(lambda: self._resolve(model, voice, naming))
            except Unavailable:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise
            await asyncio.sleep(min(left_s, self._tuning.poll_s))

    async def model(self, name: str) -> Model:
        """What `name` means; refreshes before it says no. Raises UnknownModel or Unavailable."""
        return await self._certain(lambda: self.snapshot.model(name, self._default_model))

    async def models(self) -> dict[str, Model]:
        """All models by name; refreshes before it says that there are none."""
        try:
            await self.model(DEFAULT)
        except Unavailable:
            return {}
        return self.snapshot.models()

    async def _certain(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of `ask`. Only a refresh that began after the question may say no: a worker
        may have reported since the last. Concurrent questions share one refresh, and refreshes are
        rate-limited.
        """
        try:
            return ask()
        except (UnknownModel, UnknownVoice, Unavailable):
            asked_s = time.monotonic()
        async with self._refreshing:
            if self._refreshed_s < asked_s:
                await asyncio.sleep(self._refreshed_s + self._tuning.again_s - time.monotonic())
                await self.refresh()
        try:
            return ask()
        except Unavailable:  # workers that cannot report seem to be gone
            self._bus.link.store.require()
            raise

    def _resolve(self, model: str, voice: str, naming: Naming | None) -> tuple[Model, Voice]:
        if naming is not None:
            model, voice = naming(model, voice)
        found = self._known(model)
        if self.snapshot.live("vocoder", found.name):
            return found, self.snapshot.voice(found, voice)
        if found.name in self.snapshot.loading("vocoder"):
            raise ModelLoading(f"a vocoder is loading '{found.name}': try again in a moment")
        raise unserved(found.name, "vocoder")

    def _known(self, name: str) -> Model:
        """The model called `name`; Unavailable in place of UnknownModel if it was served lately."""
        try:
            return self.snapshot.model(name, self._default_model)
        except UnknownModel:
            if time.monotonic() - self._served_s.get(name, -math.inf) > self._tuning.known_s:
                raise
        raise unserved(name, "talker")

    async def refresh(self) -> None:
        """Read the replicas' reports now."""
        started_s = time.monotonic()
        try:
            entries = await self._bus.kv.entries(subjects.REPLICAS)
        except BusUnavailable as error:
            log_.debug("catalogue.stale", error=error.message)
            return
        finally:
            self._refreshed_s = started_s
        self.snapshot = ReplicaSnapshot(tuple(self._living(entries)))
        for model in self.snapshot.models():
            self._served_s[model] = started_s
            reports = self._others.setdefault(model, deque(maxlen=self._tuning.reports))
            known = self.own[model] + self._peers.streams(model)
            known += self.offline[model] + self._peers.offline(model)
            reports.append(max(0, self.snapshot.busy(model) - known))
            if self.snapshot.live("vocoder", model):
                self.can_speak.set()
        self.refreshed()

    def _living(self, entries: Iterable[BucketEntry]) -> Iterable[Replica]:
        """The reports of workers that were not found dead after they wrote them.

        A broker that lost its store counts revisions anew.
        """
        self._reports = self._found(entries)
        self._workers = {one.replica.worker_id: one for one in self._reports.values()}
        lost_s = self._bus.link.store.queues_lost_s
        self._dead = {
            name: last
            for name, last in self._dead.items()
            if name in self._workers
            and self._workers[name].revision <= last.revision
            and last.read_s > lost_s
        }
        self._gone &= self._dead.keys()
        said = (one.replica for one in self._reports.values())
        living = (replica for replica in said if replica.worker_id not in self._gone)
        return sorted(living, key=lambda replica: replica.worker_id)

    def _found(self, entries: Iterable[BucketEntry]) -> dict[str, Report]:
        """By key; among them those that are missing and were there a moment ago."""
        now_s = time.monotonic()
        latest = {entry.key: entry for entry in entries}
        found = {
            key: Report(replica, entry.revision, now_s)
            for key, entry in latest.items()
            if entry.value is not None and (replica := _parse(entry.value))
        }
        self.reports = [report.replica for report in found.values()]
        missing = {
            key: report
            for key, report in self._reports.items()
            if key not in latest and now_s - report.read_s < self._tuning.missing_s
        }
        return found | missing


def _parse(value: bytes) -> Replica | None:
    try:
        return Replica.decode(value)
    except MalformedMessage as error:
        log_.warning("catalogue.malformed", error=error.message)
        return None
