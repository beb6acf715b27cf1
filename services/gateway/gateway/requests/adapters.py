"""Low-rank adapters that clients uploaded: each belongs to the key that did.

An adapter is a record in a bucket, named by owner and name, and its two files as one object beside
the recordings of voices. Gateways read the record when a request names the adapter, talkers the
object when they need it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from gateway.errors import AdapterExists, QuotaExceeded
from gateway.requests.quota import owner_of
from gateway.requests.tenants import TenantRecord, TenantStore
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.wire import subjects
from ttscommon.wire.adapters import ADAPTER, AdapterRef
from ttscommon.wire.errors import AntiphonError, UnknownAdapter

# No talker takes a higher one, whatever its settings.
_MOST_RANK: Final = 1024


class StoredAdapter(TenantRecord, frozen=True):
    """stored: the object's name. digest: SHA-256 of its content. rank: its highest. size: bytes."""

    stored: str
    digest: str
    rank: int
    size: int
    created_unix_s: float

    @property
    def ref(self) -> AdapterRef:
        """As a request carries it."""
        return AdapterRef(self.name, self.digest, self.stored)


class AdapterStore(TenantStore[StoredAdapter]):
    """Adapters. How many a tenant may keep depends on its key."""

    bucket, noun, record = subjects.ADAPTERS, ("an adapter", "adapters"), StoredAdapter

    def unknown(self, name: str) -> UnknownAdapter:
        return unknown(name)

    def exists(self, name: str) -> AdapterExists:
        return AdapterExists(f"there is an adapter '{name}' already", param="name")

    def full(self, quota: int) -> QuotaExceeded:
        if not quota:
            return QuotaExceeded("this key may not upload adapters", param=ADAPTER)
        return super().full(quota)

    async def add(
        self, tenant: str, name: str, config: bytes, weights: bytes, quota: int
    ) -> StoredAdapter:
        """Check and store; raises InvalidAdapter, BadRequest, AdapterExists, QuotaExceeded.

        Whether it fits a model is found out by the first talker that is to speak with it.
        """
        self.require_name(name)
        await self.require_room(tenant, quota)
        files, rank = await asyncio.to_thread(_checked, config, weights)
        key = f"{owner_of(tenant)}-{files.digest}-{secrets.token_hex(8)}"
        size = len(config) + len(weights)
        stored = StoredAdapter(name, key, files.digest, rank, size, time.time())
        await self._bus.objects.put(subjects.RECORDINGS, key, files.packed())
        try:
            await self._put(tenant, stored, quota)
        except AntiphonError:
            await self._bus.objects.delete(subjects.RECORDINGS, key)
            raise
        return stored

    async def delete(self, tenant: str, name: str) -> None:
        """Talkers that hold it go on with it; raises UnknownAdapter."""
        stored = (await self._remove(tenant, name)).stored
        await self._bus.objects.delete(subjects.RECORDINGS, stored)


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
