"""Keys and values in JetStream, and recordings in its object store."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nats.js.api import ObjectInfo
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore

from ttscommon.bus.faults import WRONG_LAST_SEQUENCE, Unreachable, available, code_of
from ttscommon.bus.link import Link
from ttscommon.bus.streams import DIRECT_BATCH, EXPECTED, append, direct_get
from ttscommon.wire.errors import BusUnavailable

_EXPECTED_AMONG: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
_OPERATION: Final = "KV-Operation"
_EXPIRED: Final = "Nats-Marker-Reason"
_DELETED: Final = "DEL"


@dataclass(frozen=True)
class BucketEntry:
    """A key's value and its revision; `value` is None where there is none."""

    key: str
    value: bytes | None
    revision: int


class Buckets:
    """All access to the buckets. Every method raises BusUnavailable."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jetstream = link.jetstream

    async def put(self, bucket: str, key: str, value: bytes) -> int:
        """Store `value`; returns its revision."""
        revision = await self._write(bucket, key, value, {})
        assert revision is not None  # only an expected revision can be wrong
        return revision

    async def replace(self, bucket: str, key: str, value: bytes, revision: int) -> int | None:
        """Store `value` if the key is still at `revision` (0: there is none, or none any more).

        None if another writer was first.
        """
        written = await self.replace_among(bucket, key, key, value, revision)
        if written is None and revision == 0:
            found = await self.entry(bucket, key)
            if found.value is None and found.revision:
                return await self._write(bucket, key, value, {EXPECTED: str(found.revision)})
        return written

    async def replace_among(
        self, bucket: str, pattern: str, key: str, value: bytes, revision: int
    ) -> int | None:
        """Store `value` if `revision` is still the last of all keys that match `pattern`."""
        headers = self._expecting(bucket, pattern, revision)
        return await self._write(bucket, key, value, headers)

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> bool:
        """Remove `key`, if it is still at `revision` where one is given; False if it is not."""
        headers = {} if revision is None else self._expecting(bucket, key, revision)
        headers[_OPERATION] = _DELETED
        return await self._write(bucket, key, b"", headers) is not None

    async def purge(self, bucket: str, key: str, revision: int | None = None) -> None:
        """Remove `key` without a trace: no reader learns that it was there.

        Where a revision is given, only what is no newer.
        """
        before = None if revision is None else revision + 1
        stream, subject = self._stream(bucket), self._subject(bucket, key)
        with available(f"could not purge {bucket}/{key}"):
            await self._jetstream.purge_stream(stream, seq=before, subject=subject)

    async def keep_newest(self, bucket: str, pattern: str, count: int) -> None:
        """Of the keys that match, purge all but the `count` that were written last."""
        stream, subject = self._stream(bucket), self._subject(bucket, pattern)
        with available(f"could not purge {bucket}/{pattern}"):
            await self._jetstream.purge_stream(stream, keep=count, subject=subject)

    async def get(self, bucket: str, key: str) -> bytes | None:
        """The value as any replica has it, or None."""
        return (await self._read(bucket, key, direct=True)).value

    async def entry(self, bucket: str, key: str) -> BucketEntry:
        """The value and revision as the leader has it, also of a deleted key."""
        return await self._read(bucket, key, direct=False)

    async def all(self, bucket: str, under: str = "") -> dict[str, bytes]:
        """Every key with its value, or those that begin with `under`, which ends with a dot."""
        values: dict[str, bytes] = {}
        for entry in await self.entries(bucket, f"{under}>"):
            if entry.value is None:
                values.pop(entry.key, None)
            else:
                values[entry.key] = entry.value
        return values

    async def entries(self, bucket: str, pattern: str = ">") -> list[BucketEntry]:
        """Every entry whose key matches, oldest first; a key's latest is the last.

        Pages are read upwards: what is written meanwhile is met again further up. What expired
        just vanishes.
        """
        query = {"next_by_subj": self._subject(bucket, pattern), "batch": DIRECT_BATCH}
        found: list[BucketEntry] = []
        while True:
            after = found[-1].revision if found else 0
            page = await self._page(bucket, {**query, "seq": after + 1})
            found += page
            if len(page) < DIRECT_BATCH:
                return found

    async def latest(self, bucket: str, *patterns: str) -> list[BucketEntry]:
        """The last entry of every key that matches one of the patterns, each of which fits few."""
        found: list[BucketEntry] = []
        for start in range(0, len(patterns), DIRECT_BATCH):
            some = [self._subject(bucket, one) for one in patterns[start : start + DIRECT_BATCH]]
            found += await self._page(bucket, {"multi_last": some})
        return found

    async def _page(self, bucket: str, query: dict[str, object]) -> list[BucketEntry]:
        stream, timeout_s = self._stream(bucket), self._link.settings.publish_timeout_s
        prefix = self._subject(bucket, "")
        with available(f"could not list {bucket}"):
            page = await direct_get(self._link, stream, query, timeout_s)
        return [_entry(headers, data, prefix) for headers, data in page]

    def _expecting(self, bucket: str, pattern: str, revision: int) -> dict[str, str]:
        return {EXPECTED: str(revision), _EXPECTED_AMONG: self._subject(bucket, pattern)}

    async def _write(
        self, bucket: str, key: str, value: bytes, headers: dict[str, str]
    ) -> int | None:
        try:
            stream, subject = self._stream(bucket), self._subject(bucket, key)
            return await append(self._link, stream, subject, value, headers, self._link.api_s)
        except Unreachable as error:
            if code_of(error) == WRONG_LAST_SEQUENCE:
                return None
            raise BusUnavailable(f"could not write {bucket}/{key}") from error

    async def _read(self, bucket: str, key: str, *, direct: bool) -> BucketEntry:
        try:
            found = await self._jetstream.get_last_msg(
                self._stream(bucket), self._subject(bucket, key), direct=direct
            )
        except NotFoundError:
            return BucketEntry(key, None, 0)
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{key}") from error
        headers = found.headers or {}
        gone = _OPERATION in headers or _EXPIRED in headers
        return BucketEntry(key, None if gone else found.data or b"", found.seq or 0)

    def _stream(self, bucket: str) -> str:
        return f"KV_{self._link.name(bucket)}"

    def _subject(self, bucket: str, key: str) -> str:
        return f"$KV.{self._link.name(bucket)}.{key}"


def _entry(headers: dict[str, str], data: bytes, prefix: str) -> BucketEntry:
    gone = _OPERATION in headers or _EXPIRED in headers
    key = headers["Nats-Subject"].removeprefix(prefix)
    return BucketEntry(key, None if gone else data, int(headers["Nats-Sequence"]))


# Chunks are 128 KiB. A recording has at most 14 MB.
_BATCH: Final = 32
_READ_S: Final = 10.0
# For how long a replica may lack chunks that another has.
_BEHIND_S: Final = 3.0
_PAUSE_S: Final = 0.05


class Objects:
    """All access to the object store, which `antiphon bus` makes."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jetstream = link.jetstream
        self._open: dict[str, ObjectStore] = {}

    async def put(self, bucket: str, name: str, data: bytes) -> None:
        """Store `data`; raises BusUnavailable, also when the store is full."""
        with available(f"could not store {bucket}/{name}"):
            await (await self._bucket(bucket)).put(name, data)

    async def get(self, bucket: str, name: str) -> bytes | None:
        """What is stored, or None, also where a full store has dropped some of it.

        Raises BusUnavailable.
        """
        until_s = time.monotonic() + _BEHIND_S
        try:
            async with asyncio.timeout(_READ_S):
                while True:
                    info = await (await self._bucket(bucket)).get_info(name)
                    data = await self._chunks(bucket, info)
                    if _digest(data) == info.digest:
                        return data
                    if len(data) < (info.size or 0) and time.monotonic() > until_s:
                        return None
                    await asyncio.sleep(_PAUSE_S)  # the replica that answered lags behind
        except NotFoundError:
            return None
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{name}") from error

    async def has(self, bucket: str, name: str) -> bool:
        """Whether it is there; raises BusUnavailable."""
        with available(f"could not read {bucket}/{name}"):
            try:
                await (await self._bucket(bucket)).get_info(name)
            except NotFoundError:
                return False
        return True

    async def delete(self, bucket: str, name: str) -> None:
        """Remove it, if it is there; raises BusUnavailable."""
        with available(f"could not delete {bucket}/{name}"), suppress(NotFoundError):
            await (await self._bucket(bucket)).delete(name)

    async def _chunks(self, bucket: str, info: ObjectInfo) -> bytes:
        """What a replica has of an object: read by its subject, which takes no consumer."""
        called = self._link.name(bucket)
        query = {"next_by_subj": f"$O.{called}.C.{info.nuid}", "batch": _BATCH}
        found: list[bytes] = []
        last = 0
        while len(found) < (info.chunks or 0):
            asked = {**query, "seq": last + 1}
            page = await direct_get(self._link, f"OBJ_{called}", asked, self._link.api_s)
            if not page:
                break
            found += [data for _, data in page]
            last = int(page[-1][0]["Nats-Sequence"])
        return b"".join(found)

    async def _bucket(self, bucket: str) -> ObjectStore:
        if bucket not in self._open:
            self._open[bucket] = await self._jetstream.object_store(self._link.name(bucket))
        return self._open[bucket]


def _digest(data: bytes) -> str:
    return f"SHA-256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()}"
