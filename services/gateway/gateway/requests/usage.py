"""Use of each key: requests, characters and seconds of sound, by day and model.

Each gateway stores its own sums for a day, under a key of its own life, again and again: to write
one twice changes nothing, no two gateways write the same, and all of them together are the total.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec
import structlog

from gateway.requests.tenants import owner_of
from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import USAGE

# Between two writes; a gateway that is killed loses what it counted since the last.
_STORE_S: Final = 1.0
_COMPLAIN_S: Final = 10.0

log_ = structlog.get_logger(__name__)


class UsageSum(msgspec.Struct):
    """What was used of one model."""

    requests: int = 0
    characters: int = 0
    seconds: float = 0.0

    def add(self, other: UsageSum) -> None:
        """Count what `other` says as well."""
        self.requests += other.requests
        self.characters += other.characters
        self.seconds += other.seconds


class _Sums(msgspec.Struct):
    """One gateway's, for one tenant and day, by model."""

    tenant: str
    models: dict[str, UsageSum] = {}


@dataclass(frozen=True)
class UsedOnDay:
    """What a tenant used of a model on a day (UTC)."""

    day: date
    model: str
    used: UsageSum


class UsageCounter:
    """Counts here, stores it in the background, and sums up what all gateways stored."""

    def __init__(self, bus: Bus, clock: Callable[[], float] = time.time) -> None:
        self._bus = bus
        self._clock = clock
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._unstored: set[tuple[str, str]] = set()
        self._complained_s = 0.0

    def count(
        self, tenant: str, model: str, *, requests: int = 0, characters: int = 0, seconds: float = 0
    ) -> None:
        """Count it for today; nothing waits for the broker."""
        if not (requests or characters or seconds):
            return
        at = self._today().isoformat(), tenant
        sums = self._sums.setdefault(at, _Sums(tenant))
        sums.models.setdefault(model, UsageSum()).add(UsageSum(requests, characters, seconds))
        self._unstored.add(at)

    async def run(self) -> None:
        """Store what was counted, every second."""
        while True:
            await asyncio.sleep(_STORE_S)
            with contextlib.suppress(BusUnavailable):
                await self.store()

    async def store(self) -> None:
        """Store all that is not stored yet; raises BusUnavailable, and forgets nothing then."""
        for at in list(self._unstored):
            self._unstored.discard(at)
            try:
                record = msgspec.msgpack.encode(self._sums[at])
                await self._bus.kv.put(USAGE, self._key(*at), record)
            except BusUnavailable as error:
                self._unstored.add(at)
                self._complain(error)
                raise
        yesterday = (self._today() - timedelta(days=1)).isoformat()
        for at in [at for at in self._sums if at[0] < yesterday and at not in self._unstored]:
            del self._sums[at]

    async def of(self, tenant: str, first: date, last: date) -> list[UsedOnDay]:
        """A tenant's use from one day to another, by day and model; raises BusUnavailable.

        What this gateway counted is up to date, what others did a second old.
        """
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        patterns = [f"{day.isoformat()}.{owner_of(tenant)}.*" for day in days]
        stored = {e.key: e.value for e in await self._bus.kv.latest(USAGE, *patterns)}
        found = {
            key: msgspec.msgpack.decode(value, type=_Sums)
            for key, value in stored.items()
            if value is not None
        }
        for day in days:
            if (own := self._sums.get((day.isoformat(), tenant))) is not None:
                found[self._key(day.isoformat(), tenant)] = own
        return _by_day_and_model(found)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock(), UTC).date()

    def _key(self, day: str, tenant: str) -> str:
        return f"{day}.{owner_of(tenant)}.{self._bus.worker_id}"

    def _complain(self, error: BusUnavailable) -> None:
        if time.monotonic() - self._complained_s >= _COMPLAIN_S:
            self._complained_s = time.monotonic()
            log_.warning("usage.unstored", days=len(self._unstored), error=error.message)


def _by_day_and_model(found: dict[str, _Sums]) -> list[UsedOnDay]:
    """The sums of all gateways."""
    total: dict[tuple[str, str], UsageSum] = {}
    for key, sums in found.items():
        for model, used in sums.models.items():
            total.setdefault((key.split(".")[0], model), UsageSum()).add(used)
    return [
        UsedOnDay(date.fromisoformat(day), model, used)
        for (day, model), used in sorted(total.items())
    ]
