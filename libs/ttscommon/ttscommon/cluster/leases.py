"""Holders of jobs: a lease is written when a worker takes a job, removed when the job is done.

A job's leases are written only behind the last of all of them that was seen. So a worker that was
paused during a takeover cannot speak for the job any more, and learns from the refusal that it is
superseded. A lease outlives its holder until another worker has the job: it carries what is known
of the deaths that the job has seen. That its holder lives is said elsewhere, once for all its jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
import structlog

from ttscommon.bus import BucketEntry, Bus
from ttscommon.wire import subjects
from ttscommon.wire.epochs import HandOver
from ttscommon.wire.errors import BusUnavailable, Fenced, MalformedMessage
from ttscommon.wire.structs import AsJson
from ttscommon.wire.subjects import LEASES, StageName

# What a death is counted as.
Count = Literal["deaths", "shared", "silences"]

_FIGURES: Final = ("deaths", "bounces", "failures", "shared", "dead", "silences")

# Another writer of a job's leases is a successor or the reaper; neither writes often. The replica
# that answers a read may be behind by a moment.
_TRIES: Final = 5
_BEHIND_S: Final = 0.01
# In a key, where no worker has written a lease.
UNHELD: Final = "nobody"

log_ = structlog.get_logger(__name__)


class Lease(msgspec.Struct, AsJson, frozen=True):
    """A job's holder, and where the broker takes word of the job.

    worker_id: empty once the job was handed on and not taken yet. deaths: workers that died
    abruptly while they held this job and its log did not grow, in a row; shared: those that died so
    with many such jobs at once; silences: those that gave no answer and may live. dead: the
    processes that were counted. bounces: how often a worker that had other streams gave the job
    back, which is suspected. failures: handlers that failed without the log growing, in a row.
    waiting: the holder computes nothing for it now.
    """

    worker_id: str
    stage: StageName
    request_id: str
    epoch: int
    receipt: str
    deaths: int = 0
    bounces: int = 0
    failures: int = 0
    waiting: bool = False
    shared: int = 0
    dead: tuple[str, ...] = ()
    silences: int = 0

    @property
    def key(self) -> str:
        return subjects.lease(self.stage, self.request_id, self.worker_id or UNHELD)

    @property
    def all_of_job(self) -> str:
        """Matches the keys of every lease of the job."""
        return subjects.leases_of_job(self.stage, self.request_id)

    @property
    def held(self) -> bool:
        return bool(self.worker_id)

    def released(self, **known: int) -> Lease:
        """The same without a holder; `known` are bounces and failures as of now."""
        return msgspec.structs.replace(self, worker_id="", waiting=False, **known)

    def after_death(self, count: Count) -> Lease:
        """The same when its holder has died, or is taken for dead, which `count` grows by.

        One process dies once, however often it was thought to be dead.
        """
        left = self.released()
        if self.worker_id in self.dead:
            return left
        counts: dict[str, Any] = {count: getattr(self, count) + 1}
        return msgspec.structs.replace(left, dead=(*self.dead, self.worker_id), **counts)

    def cleared(self) -> Lease:
        """The same without a holder, whose log has grown: what died before is forgotten."""
        return msgspec.structs.replace(self.released(), deaths=0, shared=0, silences=0, dead=())

    @property
    def blamed(self) -> bool:
        """Workers have died with it."""
        return self.deaths + self.shared + self.silences > 0

    def held_by(self, worker_id: str) -> Lease:
        return msgspec.structs.replace(self, worker_id=worker_id)

    def at(self, receipt: str) -> Lease:
        """The same job, given again at another receipt."""
        return msgspec.structs.replace(self, receipt=receipt)

    @classmethod
    def handed(cls, job: HandOver, stage: StageName) -> Lease:
        """What the dead worker's lease said of the past of a job that is handed over."""
        return cls("", stage, job.request.request_id, job.epoch, job.receipt, **figures_of(job))

    def with_figures_of(self, other: Lease) -> Lease:
        """With what another lease of the job knows of its past."""
        return msgspec.structs.replace(self, **figures_of(other))


def figures_of(known: Lease | HandOver) -> dict[str, Any]:
    """What is known of a job's past."""
    return {name: getattr(known, name) for name in _FIGURES}


@dataclass(frozen=True)
class JobLeases:
    """A job's leases by key, and the last revision among them: what is written next must know it.

    Other than the holder's there is what earlier holders left, for the moment of a takeover.
    """

    by_key: Mapping[str, Lease]
    revision: int

    @classmethod
    async def read(cls, bus: Bus, stage: StageName, request_id: str) -> JobLeases:
        """As any replica has them; raises BusUnavailable."""
        found = await bus.kv.latest(LEASES, subjects.leases_of_job(stage, request_id))
        revision = max((entry.revision for entry in found), default=0)
        return cls(leases_in(found), revision)

    @property
    def newest(self) -> Lease | None:
        return max(self.by_key.values(), key=lambda one: (one.epoch, one.held), default=None)


async def forget(bus: Bus, lease: Lease) -> None:
    """Remove what is left of a job that is done, or is another message by now.

    Raises BusUnavailable.
    """
    found = await JobLeases.read(bus, lease.stage, lease.request_id)
    for key, other in found.by_key.items():
        if other.epoch <= lease.epoch:
            await bus.kv.purge(LEASES, key, found.revision)


async def leases_of_worker(bus: Bus, worker_id: str) -> list[Lease]:
    """What a worker holds, as any replica has it; raises BusUnavailable."""
    found = await bus.kv.entries(LEASES, subjects.leases_of_worker(worker_id))
    return [lease for lease in leases_in(found).values() if lease.worker_id == worker_id]


async def all_leases(bus: Bus) -> list[Lease]:
    """Of every job, as any replica has them; raises BusUnavailable."""
    return list(leases_in(await bus.kv.entries(LEASES, subjects.leases_of_worker("*"))).values())


async def lease_holders(bus: Bus) -> set[str]:
    """Every worker that holds a job, as any replica has it; raises BusUnavailable."""
    return {lease.worker_id for lease in await all_leases(bus) if lease.held}


@dataclass
class HeldLease:
    """A job's lease as its holder, or the worker that acts for it, knows it.

    `revision`: the last among the job's leases that is known; 0: not known to be written. `holder`:
    the worker that has the job, or had it.
    """

    lease: Lease
    revision: int = 0
    holder: str = ""
    _others_left: bool = field(default=False, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.holder = self.holder or self.lease.worker_id

    @property
    def key(self) -> str:
        return self.lease.held_by(self.holder).key

    @property
    def written(self) -> bool:
        return self.revision > 0

    async def take(self, bus: Bus, *, figures: bool = True) -> None:
        """Write it in place of whatever an earlier epoch left; with that one's `figures` of the
        past. Raises Fenced if a later epoch has the job, BusUnavailable.
        """
        async with self._writing:
            await self._take(bus, figures=figures)

    async def _take(self, bus: Bus, *, figures: bool) -> None:
        last, found = self.revision, None
        for attempt in range(_TRIES):
            revision = await self._write(bus, last)
            if revision is not None:
                self.revision = revision
                if self.lease.held and found is not None:
                    await self._remove_others(bus, found)
                return
            await asyncio.sleep(attempt * _BEHIND_S)
            found = await JobLeases.read(bus, self.lease.stage, self.lease.request_id)
            self._require_later_than(found)
            if figures:
                self._learn_from(found)
            last = found.revision
        raise BusUnavailable(f"the lease of {self.lease.request_id} is contended")

    async def note(self, bus: Bus, *, waiting: bool) -> None:
        """Say whether the holder works on the job; raises as `take` does."""
        self.lease = msgspec.structs.replace(self.lease, waiting=waiting)
        await self.take(bus)

    async def release(self, bus: Bus) -> None:
        """The job is over here: remove the lease, unless it was taken away by now.

        A holder that could not write one, for want of a leader, removes what earlier ones left:
        they are dead, and no other worker will. Raises BusUnavailable.
        """
        async with self._writing:
            if self.written and not self._others_left:
                await bus.kv.purge(LEASES, self.key, self.revision)
                return
            found = await JobLeases.read(bus, self.lease.stage, self.lease.request_id)
            for key, other in found.by_key.items():
                if not self._is_anothers(other) and not self._is_noted(other):
                    await bus.kv.purge(LEASES, key, found.revision)

    async def hand_back(self, bus: Bus, **known: int) -> bool:
        """Give the job up for others; False if it was not ours any more. Raises BusUnavailable.

        `known` are new figures of deaths, bounces or failures.
        """
        async with self._writing:
            self.lease = self.lease.released(**known)
            try:
                await self._take(bus, figures=False)
            except Fenced:
                return False
            return True

    async def _write(self, bus: Bus, last: int) -> int | None:
        value, among = self.lease.encode(), self.lease.all_of_job
        return await bus.kv.replace_among(LEASES, among, self.key, value, last)

    async def _remove_others(self, bus: Bus, found: JobLeases) -> None:
        """What earlier holders left: were it there when they die, the job would be handed on."""
        try:
            for key in found.by_key.keys() - {self.key}:
                await bus.kv.purge(LEASES, key, self.revision)
            self._others_left = False
        except BusUnavailable as error:
            self._others_left = True  # until the job is over
            log_.debug("lease.others_left", key=self.key, error=error.message)

    def _learn_from(self, found: JobLeases) -> None:
        """Take over the figures of the last holder, or of oneself at an earlier delivery."""
        before = found.newest
        if before is None or (before.worker_id, before.epoch) == (self.holder, self.lease.epoch):
            return
        self.lease = self.lease.with_figures_of(before)

    def _require_later_than(self, found: JobLeases) -> None:
        for other in found.by_key.values():
            if self._is_anothers(other):
                raise Fenced(f"epoch {other.epoch} holds {other.key}", owner=other.epoch)

    def _is_noted(self, other: Lease) -> bool:
        """The reaper took the job away, and tells its next holder."""
        return other.epoch == self.lease.epoch and not other.held

    def _is_anothers(self, other: Lease) -> bool:
        """A broker that died may forget that it gave a job, and give it again: the same epoch."""
        if other.epoch == self.lease.epoch:
            return other.held and other.worker_id != self.holder
        return other.epoch > self.lease.epoch


def leases_in(entries: list[BucketEntry]) -> dict[str, Lease]:
    """The leases among some entries, oldest first, by key."""
    leases: dict[str, Lease] = {}
    for entry in entries:
        leases.pop(entry.key, None)
        if entry.value is None:
            continue
        try:
            leases[entry.key] = Lease.decode(entry.value)
        except MalformedMessage as error:
            log_.warning("lease.malformed", key=entry.key, error=error.message)
    return leases
