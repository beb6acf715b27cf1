"""Lexicons that clients keep: each belongs to the key that made it.

A lexicon is two records in a bucket, named by owner and name: what it is, and behind that its
entries. Gateways read them when a request names the lexicon; nothing else does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from gateway.errors import LexiconExists, UnknownLexicon
from gateway.requests.lexicon import ClientLexicon, LexiconEntry, compiled, packed, unpacked
from gateway.requests.pls import Parsed
from gateway.requests.tenants import TenantRecord, TenantStore
from ttscommon.bus import Bus
from ttscommon.wire import subjects

_ENTRIES: Final = "entries"


class StoredLexicon(TenantRecord, frozen=True):
    """language: as the client said. entries: how many."""

    language: str
    entries: int
    created_unix_s: float


class LexiconStore(TenantStore[StoredLexicon]):
    """Lexicons. quota: how many a tenant may keep."""

    bucket, noun, record = subjects.LEXICONS, ("a lexicon", "lexicons"), StoredLexicon

    def __init__(self, bus: Bus, quota: int) -> None:
        super().__init__(bus)
        self._quota = quota

    def unknown(self, name: str) -> UnknownLexicon:
        return UnknownLexicon(f"there is no lexicon '{name}'", param="lexicons")

    def exists(self, name: str) -> LexiconExists:
        return LexiconExists(
            f"there is a lexicon '{name}' already: send replace=true to put this in its place",
            param="name",
        )

    async def add(self, tenant: str, name: str, parsed: Parsed, *, replace: bool) -> StoredLexicon:
        """Store it under a name; raises BadRequest, LexiconExists, QuotaExceeded.

        Its record first of all: of several requests for a name at once, one goes on.
        """
        self.require_name(name)
        stored = StoredLexicon(name, parsed.language, len(parsed.entries), time.time())
        await self._put(tenant, stored, self._quota, replace=replace)
        key = f"{self._key(tenant, name)}.{_ENTRIES}"
        await self._bus.kv.put(self.bucket, key, packed(parsed.entries))
        return stored

    async def whole(self, tenant: str, name: str) -> tuple[StoredLexicon, list[LexiconEntry]]:
        """Raises UnknownLexicon."""
        record = await self.get(tenant, name)
        return record, unpacked(await self._content(tenant, name))

    async def delete(self, tenant: str, name: str) -> None:
        """Raises UnknownLexicon."""
        await self._remove(tenant, name)
        await self._bus.kv.delete(self.bucket, f"{self._key(tenant, name)}.{_ENTRIES}")

    async def named(self, tenant: str, names: Sequence[str]) -> tuple[ClientLexicon, ...]:
        """Lexicons for a request, in their order; raises UnknownLexicon."""
        return tuple([compiled(await self._content(tenant, name)) for name in names])

    async def _content(self, tenant: str, name: str) -> bytes:
        content = await self._bus.kv.get(self.bucket, f"{self._key(tenant, name)}.{_ENTRIES}")
        if content is None:
            raise self.unknown(name)
        return content
