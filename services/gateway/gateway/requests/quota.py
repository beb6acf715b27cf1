"""Quotas of tenants: counts of records that are kept, bytes of records that pass."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable

OWNER_CHARACTERS: Final = 16
# A replica of the broker has a new record within milliseconds.
_SEEN_S: Final = 5.0
_LOOK_S: Final = 0.02


def owner_of(tenant: str) -> str:
    """What a tenant's keys begin with."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:OWNER_CHARACTERS]


async def older(bus: Bus, bucket: str, pattern: str, key: str, revision: int) -> int:
    """Of the keys that match `pattern`, those that were there before `key` got its `revision`.

    The broker numbers records: however many come at once, each finds the same ones before it. Any
    replica may answer, and lag behind. Raises BusUnavailable, and then the record is gone.
    """
    until_s = time.monotonic() + _SEEN_S
    while time.monotonic() < until_s:
        latest = {entry.key: entry for entry in await bus.kv.entries(bucket, pattern)}
        if key in latest and latest[key].revision >= revision:
            return sum(e.value is not None and e.revision < revision for e in latest.values())
        await asyncio.sleep(_LOOK_S)
    await bus.kv.delete(bucket, key, revision)
    raise BusUnavailable("the broker does not show the record that it stored")


class Stored(NamedTuple):
    """A record that a gateway stored, and the revision of it."""

    name: str
    size: int
    revision: int
    since_s: float


class ByteQuota:
    """What each tenant may store through this gateway of records that the broker forgets.

    A tenant that stores more loses its oldest, so that it leaves room for others. age_s: when the
    broker forgets them. A gateway that restarts counts from nothing, and others count apart: where
    that adds up to the store's size, the store drops its oldest, whosever that is.
    """

    def __init__(
        self, most_bytes: int, age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes, self._age_s, self._clock = most_bytes, age_s, clock
        self._stored: defaultdict[str, OrderedDict[str, Stored]] = defaultdict(OrderedDict)
        self._bytes: Counter[str] = Counter()

    def add(self, tenant: str, name: str, size: int, revision: int = 0) -> list[Stored]:
        """It was stored, perhaps once more; returns what has to be removed for it."""
        self.drop(tenant, name)
        every, now_s = self._stored[tenant], self._clock()
        every[name] = Stored(name, size, revision, now_s)
        self._bytes[tenant] += size
        while next(iter(every.values())).since_s + self._age_s < now_s:
            self._pop(tenant)
        gone: list[Stored] = []
        while self._bytes[tenant] > self._most_bytes and len(every) > 1:
            gone.append(self._pop(tenant))
        return gone

    def drop(self, tenant: str, name: str) -> None:
        """It was removed, or another gateway goes on with it."""
        if tenant in self._stored and (stored := self._stored[tenant].pop(name, None)):
            self._bytes[tenant] -= stored.size
            if not self._stored[tenant]:
                del self._stored[tenant], self._bytes[tenant]

    def _pop(self, tenant: str) -> Stored:
        _, oldest = self._stored[tenant].popitem(last=False)
        self._bytes[tenant] -= oldest.size
        return oldest
