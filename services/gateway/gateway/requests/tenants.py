"""Stores of what tenants keep under names, and their quotas."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec

from gateway.errors import QuotaExceeded
from ttscommon.bus import Bus
from ttscommon.wire.errors import AntiphonError, BadRequest, BusUnavailable

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
        """Count what was stored, or stored again; returns what has to be removed for it."""
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


_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TenantRecord(msgspec.Struct, frozen=True):
    """name: its owner's for it."""

    name: str


R = TypeVar("R", bound=TenantRecord)


class TenantStore(Generic[R]):
    """The records of all tenants; every method acts for one of them, and raises BusUnavailable.

    article, noun: what one is, for the texts of errors. param: a request's field for it.
    missing, exists: the tenant has none of a name, or has one already; instead: what to do then.
    """

    bucket: ClassVar[str]
    article: ClassVar[str] = "a"
    noun: ClassVar[str]
    param: ClassVar[str]
    missing: ClassVar[type[AntiphonError]]
    exists: ClassVar[type[AntiphonError]]
    instead: ClassVar[str] = ""
    record: type[R]

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def unknown(self, name: str, known: str = "") -> AntiphonError:
        """The tenant has none of this name. known: names that there are, if it is worth telling."""
        hint = f"; try {known}" if known else ""
        return self.missing(f"there is no {self.noun} '{name[:64]}'{hint}", param=self.param)

    def full(self, quota: int) -> QuotaExceeded:
        """The tenant has as many as it may keep."""
        return QuotaExceeded(f"a key can keep {quota} {self.noun}s", param="name")

    async def of(self, tenant: str) -> list[R]:
        """A tenant's records, by name."""
        latest: dict[str, bytes | None] = {}
        for entry in await self._bus.kv.entries(self.bucket, f"{owner_of(tenant)}.*"):
            latest[entry.key] = entry.value
        return [self._parsed(value) for _, value in sorted(latest.items()) if value is not None]

    async def find(self, tenant: str, name: str) -> R | None:
        """The tenant's record of this name, if it has one."""
        if not _NAME.fullmatch(name):
            return None
        value = await self._bus.kv.get(self.bucket, self._key(tenant, name))
        return None if value is None else self._parsed(value)

    async def get(self, tenant: str, name: str) -> R:
        """Raises `unknown`, also for a record of another tenant."""
        if (found := await self.find(tenant, name)) is None:
            raise self.unknown(name)
        return found

    async def require_room(self, tenant: str, quota: int) -> None:
        """Raises QuotaExceeded before anything is read or stored in vain."""
        if not quota or len(await self.of(tenant)) >= quota:
            raise self.full(quota)

    def require_name(self, name: str) -> None:
        """Raises BadRequest."""
        if not _NAME.fullmatch(name):
            text = f"{self.article} {self.noun}'s name has 1 to 64 letters, digits, '-' and '_'"
            raise BadRequest(text, param="name")

    async def _put(self, tenant: str, record: R, quota: int, *, replace: bool = False) -> None:
        """Raises `exists`; QuotaExceeded if others were first, at whatever gateway.

        Of the records that a tenant has, the oldest count: however many come at once, each finds
        the same ones before it.
        """
        key, data, at = self._key(tenant, record.name), msgspec.json.encode(record), 0
        if replace:
            before = await self._bus.kv.entry(self.bucket, key)
            at = before.revision if before.value is not None else 0
        revision = await self._bus.kv.replace(self.bucket, key, data, at)
        if revision is None:
            there = f"there is {self.article} {self.noun} '{record.name}' already"
            raise self.exists(f"{there}{self.instead}", param="name")
        if at:
            return
        pattern = f"{owner_of(tenant)}.*"
        if await older(self._bus, self.bucket, pattern, key, revision) >= quota:
            await self._bus.kv.delete(self.bucket, key, revision)
            raise self.full(quota)

    async def _remove(self, tenant: str, name: str) -> R:
        """Returns what it was; raises `unknown`."""
        entry = await self._bus.kv.entry(self.bucket, self._key(tenant, name))
        if entry.value is None:
            raise self.unknown(name)
        if not await self._bus.kv.delete(self.bucket, entry.key, entry.revision):
            raise self.unknown(name)  # another request was first
        return self._parsed(entry.value)

    def _key(self, tenant: str, name: str) -> str:
        """Raises `unknown` for what is no name."""
        if not _NAME.fullmatch(name):
            raise self.unknown(name)
        return f"{owner_of(tenant)}.{name}"

    def _parsed(self, record: bytes) -> R:
        return msgspec.json.decode(record, type=self.record)
