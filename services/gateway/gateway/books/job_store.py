"""All books that the broker knows, each by the key that owns it, with their texts and sounds."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from gateway.books.records import BookOrder, BookRecord, JobResult, PortionText, index_of
from gateway.errors import NotFound, QuotaExceeded
from gateway.requests.tenants import owner_of
from ttscommon.bus import BucketEntry, Bus
from ttscommon.wire.errors import BusUnavailable, MalformedMessage
from ttscommon.wire.subjects import BOOK_PARTS, BOOKS

T = TypeVar("T")


class JobParts(Protocol):
    """Every method raises BusUnavailable where the store cannot do it now."""

    async def put(self, name: str, data: bytes) -> None: ...
    async def get(self, name: str) -> bytes | None: ...
    async def delete(self, name: str) -> None: ...


class StoredParts:
    """In the broker's object store, which is bounded, and forgets what is a month old."""

    def __init__(self, bus: Bus) -> None:
        self._objects = bus.objects

    async def put(self, name: str, data: bytes) -> None:
        await self._objects.put(BOOK_PARTS, name, data)

    async def get(self, name: str) -> bytes | None:
        return await self._objects.get(BOOK_PARTS, name)

    async def delete(self, name: str) -> None:
        await self._objects.delete(BOOK_PARTS, name)


class FolderParts:
    """In a folder that all gateways see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, data: bytes) -> None:
        """Another reader sees all of it or nothing."""
        await self._do(name, lambda path: _write(path, data))

    async def get(self, name: str) -> bytes | None:
        try:
            return await self._do(name, Path.read_bytes)
        except FileNotFoundError:
            return None

    async def delete(self, name: str) -> None:
        await self._do(name, lambda path: path.unlink(missing_ok=True))

    async def _do(self, name: str, action: Callable[[Path], T]) -> T:
        try:
            return await asyncio.to_thread(action, self._folder / name)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BusUnavailable(f"{self._folder}: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        passing.write_bytes(data)
        passing.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            passing.unlink()
        raise


# What a broker keeps for all keys together, at some kilobytes each.
_MOST: Final = 2000
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FoundBook:
    """A record as it stands, and its revision."""

    record: BookRecord
    revision: int


class JobStore:
    """Every method raises BusUnavailable."""

    def __init__(self, bus: Bus, parts: JobParts) -> None:
        self.parts = parts
        self._bus = bus

    async def add(
        self, tenant: str, order: BookOrder, portions: Sequence[PortionText], quota: int
    ) -> BookRecord:
        """Store a book that is to be spoken; raises QuotaExceeded."""
        await self._require_room(tenant, quota)
        book_id = secrets.token_urlsafe(16)
        characters = sum(len(one.text) for one in portions)
        record = BookRecord(book_id, tenant, order, len(portions), characters, time.time())
        await self.parts.put(record.text_name, msgspec.msgpack.encode(portions))
        written = await self._bus.kv.replace(BOOKS, key_of(record), record.encode(), 0)
        if written is None:
            raise BusUnavailable("another book has this name")  # of 128 random bits
        try:
            await self._require_room(tenant, quota + 1)
        except QuotaExceeded:
            await self.withdraw(tenant, book_id)
            raise
        return record

    async def _require_room(self, tenant: str, quota: int) -> None:
        """However many come at once, no key keeps more; perhaps none of those gets in."""
        if len(await self.of(tenant)) >= quota:
            raise QuotaExceeded(f"a key can keep {quota} jobs: delete one", param="input")
        if len(await self.all()) > _MOST:
            raise QuotaExceeded("all keys together keep too many jobs")

    async def of(self, tenant: str) -> list[FoundBook]:
        """A tenant's books, the oldest first."""
        found = await self._found(f"{owner_of(tenant)}.*")
        return [one for one in found if one.record.state != "removing"]

    async def all(self) -> list[FoundBook]:
        """Every tenant's, the oldest first, and those that are to be removed."""
        return await self._found(">")

    async def _found(self, pattern: str) -> list[FoundBook]:
        latest = {entry.key: entry for entry in await self._bus.kv.entries(BOOKS, pattern)}
        found = (found for entry in latest.values() if (found := _parsed(entry)) is not None)
        return sorted(found, key=lambda one: one.record.created_unix_s)

    async def get(self, tenant: str, book_id: str) -> FoundBook:
        """As the leader has it; raises NotFound, also for another tenant's."""
        if _ID.fullmatch(book_id):
            found = await self.look(f"{owner_of(tenant)}.{book_id}")
            if found is not None and found.record.state != "removing":
                return found
        raise NotFound("there is no such job, or its time is over", param="job_id")

    async def look(self, key: str) -> FoundBook | None:
        """The same by key; None where there is none."""
        return _parsed(await self._bus.kv.entry(BOOKS, key))

    async def write(self, record: BookRecord, revision: int) -> int | None:
        """The new revision; None if another gateway, or the owner's DELETE, was first."""
        return await self._bus.kv.replace(BOOKS, key_of(record), record.encode(), revision)

    async def portions(self, record: BookRecord) -> list[PortionText]:
        """Its text; empty where the store has lost it."""
        data = await self.parts.get(record.text_name)
        return [] if data is None else msgspec.msgpack.decode(data, type=list[PortionText])

    async def result(self, record: BookRecord) -> JobResult | None:
        """What can be downloaded; None where the store has lost it."""
        data = await self.parts.get(record.result_name)
        return None if data is None else msgspec.msgpack.decode(data, type=JobResult)

    async def withdraw(self, tenant: str, book_id: str) -> BookRecord:
        """The owner wants it no more; raises NotFound. A gateway removes it soon, and the one that
        speaks it finds out when it writes.
        """
        while True:
            found = await self.get(tenant, book_id)
            gone = replace(found.record, state="removing", owner="", expires_unix_s=0.0)
            if await self.write(gone, found.revision) is not None:
                return found.record

    async def remove(self, record: BookRecord) -> None:
        """All that lies in the store of a book, and then its record."""
        names = [record.text_name, record.result_name, *made_of(record)]
        if (result := await self.result(record)) is not None:
            names += [part.name for part in result.parts]
        await self.clear(names)
        await self._bus.kv.delete(BOOKS, key_of(record))

    async def clear(self, names: Iterable[str]) -> None:
        """Remove parts; what cannot be removed now goes with its age."""
        for name in dict.fromkeys(names):
            try:
                await self.parts.delete(name)
            except BusUnavailable as error:
                log_.info("book.part_left", name=name, error=error.message)


def made_of(record: BookRecord) -> list[str]:
    """Parts that the owners of a record stored, or were about to."""
    made = [record.portion_name(index, one.epoch) for index, one in record.made.items()]
    return [*made, *unfinished_of(record)]


def unfinished_of(record: BookRecord) -> list[str]:
    """Those of its last owner that are of no use to another."""
    indexes = [at for one in record.running if (at := index_of(one)) not in record.made]
    running = [record.portion_name(index, record.epoch) for index in indexes]
    encoded = [record.part_name(number, record.epoch) for number in range(record.encoded + 1)]
    return [*running, *encoded]


def key_of(record: BookRecord) -> str:
    return f"{owner_of(record.tenant)}.{record.book_id}"


def _parsed(entry: BucketEntry) -> FoundBook | None:
    if entry.value is None:
        return None
    try:
        return FoundBook(BookRecord.decode(entry.value), entry.revision)
    except MalformedMessage as error:  # of a later release, perhaps
        log_.warning("book.malformed", key=entry.key, error=str(error))
        return None
