"""Who holds which job: one lease a job, replaced only at the revision that was seen.

So a worker that was paused during a takeover cannot write over its successor's lease, and learns
from the refusal that it is superseded. A lease outlives its holder until another worker has the
job: it carries what is known of the deaths that the job has seen.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
import structlog

from ttscommon.bus import Bus, Entry
from ttscommon.errors import BusUnavailable, Fenced, MalformedMessage
from ttscommon.subjects import LEASES

StageName = Literal["talker", "vocoder"]

# Another writer of a lease is a successor or the reaper; neither writes twice.
_TRIES: Final = 4

log_ = structlog.get_logger(__name__)


class Lease(msgspec.Struct, frozen=True):
    """A job's holder, and where the broker takes word of the job.

    worker_id: empty once the job was handed on and nobody holds it yet. deaths: workers that died
    abruptly while they held this job and its log did not grow, in a row. bounces: how often a
    worker that had other streams gave the job back, which has to run alone. failures: handlers that
    failed without the log growing, in a row. waiting: the holder has not begun to work on it.
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

    @property
    def key(self) -> str:
        return f"{self.stage}.{self.request_id}"

    @property
    def held(self) -> bool:
        return bool(self.worker_id)

    def released(self, **known: int) -> Lease:
        """The same without a holder; `known` are deaths, bounces and failures as of now."""
        return msgspec.structs.replace(self, worker_id="", waiting=False, **known)

    def held_by(self, worker_id: str) -> Lease:
        """The same in another worker's hands."""
        return msgspec.structs.replace(self, worker_id=worker_id)

    def at(self, receipt: str) -> Lease:
        """The same job, given again at another receipt."""
        return msgspec.structs.replace(self, receipt=receipt)

    def with_figures_of(self, other: Lease) -> Lease:
        """With what another lease of the job knows of its past."""
        return msgspec.structs.replace(
            self, deaths=other.deaths, bounces=other.bounces, failures=other.failures
        )

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Lease:
        """Raises MalformedMessage."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise MalformedMessage(str(error)) from error


@dataclass
class HeldLease:
    """A job's lease as its holder knows it, or who acts for the holder.

    `revision` 0: not known to be written. `written_s`: when it was, last. `holder`: the worker that
    has the job, or had it.
    """

    lease: Lease
    revision: int = 0
    holder: str = ""
    written_s: float = -math.inf
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.holder = self.holder or self.lease.worker_id

    @property
    def written(self) -> bool:
        return self.revision > 0

    async def take(self, bus: Bus, *, figures: bool = True) -> None:
        """Write it over whatever an earlier epoch left; with that one's `figures` of the past.

        Raises Fenced if a later epoch has the job, BusUnavailable.
        """
        async with self._writing:
            await self._take(bus, figures=figures)

    async def _take(self, bus: Bus, *, figures: bool) -> None:
        found = Entry(self.lease.key, None, self.revision)
        for _ in range(_TRIES):
            revision = await bus.kv.replace(
                LEASES, self.lease.key, self.lease.encode(), found.revision
            )
            if revision is not None:
                self.revision, self.written_s = revision, time.monotonic()
                return
            found = await bus.kv.entry(LEASES, self.lease.key)
            before = _decode(found)
            self._require_later_than(before)
            if figures and before is not None and before.worker_id != self.holder:
                self.lease = self.lease.with_figures_of(before)
        raise BusUnavailable(f"the lease of {self.lease.request_id} is contended")

    async def note(self, bus: Bus, *, waiting: bool) -> None:
        """Say whether the holder works on the job; raises as `take` does."""
        self.lease = msgspec.structs.replace(self.lease, waiting=waiting)
        await self.take(bus)

    async def release(self, bus: Bus) -> None:
        """The job is over here: remove the lease, unless it is another worker's by now.

        Raises BusUnavailable.
        """
        async with self._writing:
            if self.written:
                await bus.kv.delete(LEASES, self.lease.key, self.revision)
                return
            found = await bus.kv.entry(LEASES, self.lease.key)
            lease = _decode(found)
            if lease is not None and not self._is_anothers(lease):
                await bus.kv.delete(LEASES, lease.key, found.revision)

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

    def _require_later_than(self, other: Lease | None) -> None:
        if other is not None and self._is_anothers(other):
            raise Fenced(f"epoch {other.epoch} holds {other.key}", owner=other.epoch)

    def _is_anothers(self, other: Lease) -> bool:
        """A broker that died may forget that it gave a job, and give it again: the same epoch."""
        if other.epoch == self.lease.epoch:
            return other.held and other.worker_id != self.holder
        return other.epoch > self.lease.epoch


def _decode(entry: Entry) -> Lease | None:
    if entry.value is None:
        return None
    try:
        return Lease.decode(entry.value)
    except MalformedMessage as error:
        log_.warning("lease.malformed", key=entry.key, error=error.message)
        return None
