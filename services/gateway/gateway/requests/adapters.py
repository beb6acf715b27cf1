"""Low-rank adapters that clients uploaded: each belongs to the key that did.

An adapter is a record in a bucket, named by owner and name, and its two files as one object beside
the recordings of voices. Gateways read the record when a request names the adapter, talkers the
object when they need it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from typing import Final

import msgspec

from gateway.errors import AdapterExists, QuotaExceeded
from gateway.requests.quota import older, owner_of
from ttscommon.bus import Bus
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.wire import subjects
from ttscommon.wire.adapters import ADAPTER, AdapterRef
from ttscommon.wire.errors import AntiphonError, BadRequest, UnknownAdapter

# No talker takes a higher one, whatever its settings.
_MOST_RANK: Final = 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class StoredAdapter(msgspec.Struct, frozen=True):
    """stored: the object's name. digest: SHA-256 of its content. rank: its highest. size: bytes."""

    name: str
    stored: str
    digest: str
    rank: int
    size: int
    created_unix_s: float

    @property
    def ref(self) -> AdapterRef:
        """As a request carries it."""
        return AdapterRef(self.name, self.digest, self.stored)


class AdapterStore:
    """The adapters of all tenants; every method acts for one of them, and raises BusUnavailable."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def add(
        self, tenant: str, name: str, config: bytes, weights: bytes, quota: int
    ) -> StoredAdapter:
        """Check and store; raises InvalidAdapter, BadRequest, AdapterExists, QuotaExceeded.

        Whether it fits a model is found out by the first talker that is to speak with it.
        """
        if not _NAME.fullmatch(name):
            raise BadRequest(
                "an adapter's name has 1 to 64 letters, digits, '-' and '_'", param="name"
            )
        await self.require_room(tenant, quota)
        files, rank = await asyncio.to_thread(_checked, config, weights)
        key = f"{owner_of(tenant)}-{files.digest}-{secrets.token_hex(8)}"
        size = len(config) + len(weights)
        stored = StoredAdapter(name, key, files.digest, rank, size, time.time())
        await self._bus.objects.put(subjects.RECORDINGS, key, files.packed())
        try:
            await self._record(tenant, stored, quota)
        except AntiphonError:
            await self._bus.objects.delete(subjects.RECORDINGS, key)
            raise
        return stored

    async def _record(self, tenant: str, stored: StoredAdapter, quota: int) -> None:
        """Raises AdapterExists; QuotaExceeded if others were first, at whatever gateway."""
        key, record = _key(tenant, stored.name), msgspec.json.encode(stored)
        revision = await self._bus.kv.replace(subjects.ADAPTERS, key, record, 0)
        if revision is None:
            raise AdapterExists(f"there is an adapter '{stored.name}' already", param="name")
        pattern = f"{owner_of(tenant)}.>"
        if await older(self._bus, subjects.ADAPTERS, pattern, key, revision) >= quota:
            await self._bus.kv.delete(subjects.ADAPTERS, key, revision)
            raise _full(quota)

    async def require_room(self, tenant: str, quota: int) -> None:
        """Raises QuotaExceeded before a body is read in vain."""
        if not quota or len(await self.of(tenant)) >= quota:
            raise _full(quota)

    async def of(self, tenant: str) -> list[StoredAdapter]:
        """A tenant's adapters, by name."""
        records = await self._bus.kv.all(subjects.ADAPTERS, f"{owner_of(tenant)}.")
        return [_parsed(record) for _, record in sorted(records.items())]

    async def find(self, tenant: str, name: str) -> StoredAdapter | None:
        """The tenant's adapter of this name, if it has one."""
        if not _NAME.fullmatch(name):
            return None
        record = await self._bus.kv.get(subjects.ADAPTERS, _key(tenant, name))
        return None if record is None else _parsed(record)

    async def delete(self, tenant: str, name: str) -> None:
        """Talkers that hold it go on with it; raises UnknownAdapter."""
        if not _NAME.fullmatch(name):
            raise unknown(name)
        entry = await self._bus.kv.entry(subjects.ADAPTERS, _key(tenant, name))
        if entry.value is None:
            raise unknown(name)
        if not await self._bus.kv.delete(subjects.ADAPTERS, entry.key, entry.revision):
            raise unknown(name)  # another request was first
        await self._bus.objects.delete(subjects.RECORDINGS, _parsed(entry.value).stored)


def unknown(name: str, known: str = "") -> UnknownAdapter:
    """known: names that there are, if it is worth telling."""
    hint = f"; try {known}" if known else ""
    return UnknownAdapter(f"there is no adapter '{name[:64]}'{hint}", param=ADAPTER)


def _checked(config: bytes, weights: bytes) -> tuple[Files, int]:
    """Takes as long as reading the files: not on the event loop."""
    files = Files.of(config, weights)
    lora = Lora.parse(files, _MOST_RANK)
    lora.check_values()
    return files, lora.rank


def _full(quota: int) -> QuotaExceeded:
    if not quota:
        return QuotaExceeded("this key may not upload adapters", param=ADAPTER)
    return QuotaExceeded(f"a key can keep {quota} adapters", param="name")


def _key(tenant: str, name: str) -> str:
    return f"{owner_of(tenant)}.{name}"


def _parsed(record: bytes) -> StoredAdapter:
    return msgspec.json.decode(record, type=StoredAdapter)
