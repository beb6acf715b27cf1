"""Lexicons that clients keep: each belongs to the key that made it.

A lexicon is two records in a bucket, named by owner and name: what it is, and behind that its
entries. Gateways read them when a request names the lexicon; nothing else does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.errors import LexiconExists, QuotaExceeded, UnknownLexicon
from gateway.requests.lexicon import ClientLexicon, LexiconEntry, compiled, packed, unpacked
from gateway.requests.pls import Parsed
from gateway.requests.quota import older, owner_of
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENTRIES: Final = "entries"


class StoredLexicon(msgspec.Struct, frozen=True):
    """language: as the client said. entries: how many."""

    name: str
    language: str
    entries: int
    created_unix_s: float


class LexiconStore:
    """The lexicons of all tenants; every method acts for one of them, and raises BusUnavailable."""

    def __init__(self, bus: Bus, quota: int) -> None:
        self._bus, self._quota = bus, quota

    async def add(self, tenant: str, name: str, parsed: Parsed, *, replace: bool) -> StoredLexicon:
        """Store it under a name; raises BadRequest, LexiconExists, QuotaExceeded."""
        if not _NAME.fullmatch(name):
            raise BadRequest(
                "a lexicon's name has 1 to 64 letters, digits, '-' and '_'", param="name"
            )
        stored = StoredLexicon(name, parsed.language, len(parsed.entries), time.time())
        await self._record(tenant, stored, replace=replace)
        key = f"{_key(tenant, name)}.{_ENTRIES}"
        await self._bus.kv.put(subjects.LEXICONS, key, packed(parsed.entries))
        return stored

    async def _record(self, tenant: str, stored: StoredLexicon, *, replace: bool) -> None:
        """First of all: of several requests for a name at once, one goes on."""
        key, data = _key(tenant, stored.name), msgspec.json.encode(stored)
        before = await self._bus.kv.entry(subjects.LEXICONS, key)
        known = before.value is not None
        if known and not replace:
            raise _exists(stored.name)
        at = before.revision if known else 0
        revision = await self._bus.kv.replace(subjects.LEXICONS, key, data, at)
        if revision is None:
            raise _exists(stored.name)
        if known:
            return
        pattern = f"{owner_of(tenant)}.*"
        if await older(self._bus, subjects.LEXICONS, pattern, key, revision) >= self._quota:
            await self._bus.kv.delete(subjects.LEXICONS, key, revision)
            raise QuotaExceeded(f"a key can keep {self._quota} lexicons", param="name")

    async def of(self, tenant: str) -> list[StoredLexicon]:
        """A tenant's lexicons, by name."""
        latest: dict[str, bytes | None] = {}
        for entry in await self._bus.kv.entries(subjects.LEXICONS, f"{owner_of(tenant)}.*"):
            latest[entry.key] = entry.value
        return [_parsed(value) for _, value in sorted(latest.items()) if value is not None]

    async def get(self, tenant: str, name: str) -> tuple[StoredLexicon, list[LexiconEntry]]:
        """Raises UnknownLexicon, also for a lexicon of another tenant."""
        record = await self._bus.kv.get(subjects.LEXICONS, _key(tenant, name))
        if record is None:
            raise _unknown(name)
        return _parsed(record), unpacked(await self._content(tenant, name))

    async def delete(self, tenant: str, name: str) -> None:
        """Raises UnknownLexicon."""
        entry = await self._bus.kv.entry(subjects.LEXICONS, _key(tenant, name))
        if entry.value is None:
            raise _unknown(name)
        if not await self._bus.kv.delete(subjects.LEXICONS, entry.key, entry.revision):
            raise _unknown(name)  # another request was first
        await self._bus.kv.delete(subjects.LEXICONS, f"{entry.key}.{_ENTRIES}")

    async def named(self, tenant: str, names: Sequence[str]) -> tuple[ClientLexicon, ...]:
        """Lexicons for a request, in their order; raises UnknownLexicon."""
        return tuple([compiled(await self._content(tenant, name)) for name in names])

    async def _content(self, tenant: str, name: str) -> bytes:
        key = f"{_key(tenant, name)}.{_ENTRIES}"
        content = await self._bus.kv.get(subjects.LEXICONS, key)
        if content is None:
            raise _unknown(name)
        return content


def _exists(name: str) -> LexiconExists:
    return LexiconExists(
        f"there is a lexicon '{name}' already: send replace=true to put this in its place",
        param="name",
    )


def _unknown(name: str) -> UnknownLexicon:
    return UnknownLexicon(f"there is no lexicon '{name}'", param="lexicons")


def _key(tenant: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise _unknown(name[:64])
    return f"{owner_of(tenant)}.{name}"


def _parsed(record: bytes) -> StoredLexicon:
    return msgspec.json.decode(record, type=StoredLexicon)
