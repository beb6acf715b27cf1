"""All leases, as of a moment ago: read as changes from any replica of the bucket.

A consumer would push them, and go blind with the broker it lives on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog

from ttscommon.bus import Bus, Entry
from ttscommon.errors import MalformedMessage
from ttscommon.leases import Lease
from ttscommon.reaper.election import KEY
from ttscommon.subjects import LEASES

# Beyond this the bucket itself has forgotten a lease that was not renewed.
_FORGOTTEN_S = 75.0

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Seen:
    """A lease, and when it was read."""

    lease: Lease
    at_s: float


class LeaseView:
    """Leases by key. A lease that this reaper knows to be out of date is `put` right here."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._leases: dict[str, Seen] = {}
        self._revision = 0

    def __len__(self) -> int:
        return sum(seen.lease.held for seen in self._leases.values())

    def __getitem__(self, key: str) -> Seen | None:
        return self._leases.get(key)

    def put(self, lease: Lease) -> None:
        """What is known of a job before the bucket says so; an older entry does not undo it."""
        self._leases[lease.key] = Seen(lease, time.monotonic())

    def drop(self, key: str) -> None:
        self._leases.pop(key, None)

    def held_by(self, worker_id: str) -> list[Seen]:
        return [seen for seen in self._leases.values() if seen.lease.worker_id == worker_id]

    def workers(self) -> set[str]:
        """Everyone who holds a job."""
        return {seen.lease.worker_id for seen in self._leases.values() if seen.lease.held}

    def released(self) -> list[Seen]:
        """Jobs that were handed on and that nobody has taken yet."""
        return [seen for seen in self._leases.values() if not seen.lease.held]

    async def refresh(self) -> None:
        """Read what has changed; raises BusUnavailable."""
        for entry in await self._bus.kv.changes(LEASES, self._revision):
            self._revision = max(self._revision, entry.revision)
            if entry.key != KEY:
                self._note(entry)
        oldest_s = time.monotonic() - _FORGOTTEN_S
        for key in [key for key, seen in self._leases.items() if seen.at_s < oldest_s]:
            del self._leases[key]

    def _note(self, entry: Entry) -> None:
        known = self._leases.get(entry.key)
        if entry.value is None:
            self._leases.pop(entry.key, None)
            return
        try:
            lease = Lease.decode(entry.value)
        except MalformedMessage as error:
            log_.warning("lease.malformed", key=entry.key, error=error.message)
            return
        if known is None or lease.epoch >= known.lease.epoch:
            self._leases[entry.key] = Seen(lease, time.monotonic())
