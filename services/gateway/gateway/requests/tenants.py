"""Things that tenants keep under names: one store for their voices, adapters and lexicons.

A record is a key in a bucket, named by owner and name, which every gateway reads. The broker
numbers records, so of several writers of a name one goes on, and a quota counts the same ones at
whatever gateway.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from gateway.errors import QuotaExceeded
from gateway.requests.quota import older, owner_of
from ttscommon.bus import Bus
from ttscommon.wire.errors import AntiphonError, BadRequest

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TenantRecord(msgspec.Struct, frozen=True):
    """name: its owner's for it."""

    name: str


R = TypeVar("R", bound=TenantRecord)


class TenantStore(ABC, Generic[R]):
    """The records of all tenants; every method acts for one of them, and raises BusUnavailable.

    noun: what one is, for the texts of errors, and its plural.
    """

    bucket: ClassVar[str]
    noun: ClassVar[tuple[str, str]]
    record: type[R]

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @abstractmethod
    def unknown(self, name: str) -> AntiphonError:
        """The tenant has none of this name."""

    @abstractmethod
    def exists(self, name: str) -> AntiphonError:
        """The tenant has one of this name."""

    def full(self, quota: int) -> QuotaExceeded:
        """The tenant has as many as it may keep."""
        return QuotaExceeded(f"a key can keep {quota} {self.noun[1]}", param="name")

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
            raise self.unknown(name[:64])
        return found

    async def require_room(self, tenant: str, quota: int) -> None:
        """Raises QuotaExceeded before anything is read or stored in vain."""
        if not quota or len(await self.of(tenant)) >= quota:
            raise self.full(quota)

    def require_name(self, name: str) -> None:
        """Raises BadRequest."""
        if not _NAME.fullmatch(name):
            text = f"{self.noun[0]}'s name has 1 to 64 letters, digits, '-' and '_'"
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
            raise self.exists(record.name)
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
            raise self.unknown(name[:64])
        return f"{owner_of(tenant)}.{name}"

    def _parsed(self, record: bytes) -> R:
        return msgspec.json.decode(record, type=self.record)
