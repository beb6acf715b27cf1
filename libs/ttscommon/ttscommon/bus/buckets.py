"""Keys and values in JetStream: what workers report, who holds which job, what was cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from ttscommon import subjects
from ttscommon.bus.faults import STREAM_NAME_IN_USE, WRONG_LAST_SEQUENCE, Unreachable, code_of
from ttscommon.bus.link import Link
from ttscommon.bus.logstore import DIRECT_BATCH, LogStore
from ttscommon.errors import BusUnavailable

# None: for ever.
BUCKET_TTL_S: Final[dict[str, float | None]] = {
    subjects.REPLICAS: 6.0,
    subjects.LEASES: 60.0,
    subjects.TOMBSTONES: 600.0,
    subjects.VOICES: None,
    subjects.DERIVED: None,
    subjects.PASSING_DERIVED: 3600.0,
}
# Nothing can be renewed while three brokers elect a leader, and nobody is dead for that.
_ELECTION_S: Final = 9.0


@dataclass(frozen=True)
class Entry:
    """A key's value and its revision; `value` is None where the key was deleted."""

    key: str
    value: bytes | None
    revision: int


class Buckets:
    """All access to the buckets; they are created when first used."""

    def __init__(self, link: Link, logs: LogStore) -> None:
        self._jetstream: JetStreamContext = link.jetstream
        self._logs = logs
        self._replicas = link.settings.replicas
        self._open: dict[str, KeyValue] = {}

    async def put(self, bucket: str, key: str, value: bytes) -> None:
        """Store `value`; raises BusUnavailable."""
        try:
            await (await self._bucket(bucket)).put(key, value)
        except Unreachable as error:
            raise BusUnavailable(f"could not write {bucket}/{key}") from error

    async def get(self, bucket: str, key: str) -> bytes | None:
        """The value, or None; raises BusUnavailable."""
        entry = await self.entry(bucket, key)
        return None if entry is None else entry.value

    async def entry(self, bucket: str, key: str) -> Entry | None:
        """The value with its revision, or None; raises BusUnavailable."""
        try:
            found = await (await self._bucket(bucket)).get(key)
        except nats.js.errors.NotFoundError:
            return None
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{key}") from error
        return Entry(key, found.value, found.revision or 0)

    async def replace(self, bucket: str, key: str, value: bytes, revision: int) -> bool:
        """Store `value` if the key is still at `revision` (0: there is none).

        False if somebody else was first; raises BusUnavailable.
        """
        try:
            store = await self._bucket(bucket)
            if revision:
                await store.update(key, value, last=revision)
            else:
                await store.create(key, value)
        except nats.js.errors.KeyWrongLastSequenceError:
            return False
        except Unreachable as error:
            if code_of(error) == WRONG_LAST_SEQUENCE:
                return False
            raise BusUnavailable(f"could not replace {bucket}/{key}") from error
        return True

    async def delete(self, bucket: str, key: str) -> None:
        """Remove `key`; raises BusUnavailable."""
        try:
            await (await self._bucket(bucket)).delete(key)
        except Unreachable as error:
            raise BusUnavailable(f"could not delete {bucket}/{key}") from error

    async def withdraw(self, bucket: str, key: str, value: bytes) -> None:
        """Remove `key` if it holds `value`, and nothing that somebody else wrote meanwhile.

        Raises BusUnavailable.
        """
        try:
            store = await self._bucket(bucket)
            entry = await store.get(key)
            if entry.value == value:
                await store.delete(key, last=entry.revision)
        except nats.js.errors.NotFoundError:
            return
        except Unreachable as error:
            if code_of(error) == WRONG_LAST_SEQUENCE:
                return
            raise BusUnavailable(f"could not withdraw {bucket}/{key}") from error

    async def all(self, bucket: str, under: str = "") -> dict[str, bytes]:
        """Every key with its value, or those that begin with `under`, which ends with a dot.

        Raises BusUnavailable.

        The client library lists keys by a consumer, which may miss one that is renewed meanwhile.
        Here pages are read upwards: what is renewed meanwhile is met again further up. Markers of
        deleted keys make a bucket longer than one answer may be.
        """
        prefix = f"$KV.{bucket}."
        query = {"next_by_subj": f"{prefix}{under}>", "batch": DIRECT_BATCH}
        values: dict[str, bytes] = {}
        after = 0
        try:
            await self._bucket(bucket)
            while True:
                page = await self._logs.direct_get(f"KV_{bucket}", {**query, "seq": after + 1})
                for headers, data in page:
                    after = int(headers["Nats-Sequence"])
                    key = headers["Nats-Subject"].removeprefix(prefix)
                    if "KV-Operation" in headers or "Nats-Marker-Reason" in headers:
                        values.pop(key, None)
                    else:
                        values[key] = data
                if len(page) < DIRECT_BATCH:
                    return values
        except Unreachable as error:
            raise BusUnavailable(f"could not list {bucket}") from error

    @asynccontextmanager
    async def watch(self, bucket: str, idle_s: float) -> AsyncIterator[AsyncIterator[Entry | None]]:
        """Every entry that is there and every change from now on; None after `idle_s` without one.

        Raises BusUnavailable, also from the iterator.
        """
        try:
            watcher = await (await self._bucket(bucket)).watchall()
        except Unreachable as error:
            raise BusUnavailable(f"could not watch {bucket}") from error
        try:
            yield _changes(watcher, bucket, idle_s)
        finally:
            await watcher.stop()  # type: ignore[no-untyped-call]

    async def create(self) -> None:
        """Create every bucket that is missing; raises one of `Unreachable`."""
        for bucket in BUCKET_TTL_S:
            await self._bucket(bucket)

    async def _bucket(self, bucket: str) -> KeyValue:
        """The KV bucket, created if it is missing."""
        if bucket not in self._open:
            ttl_s = BUCKET_TTL_S[bucket]
            config = KeyValueConfig(
                bucket=bucket,
                ttl=ttl_s and ttl_s + (_ELECTION_S if self._replicas > 1 else 0.0),
                replicas=self._replicas,
                direct=True,
            )
            self._open[bucket] = await self._create_bucket(config)
        return self._open[bucket]

    async def _create_bucket(self, config: KeyValueConfig) -> KeyValue:
        """Create the bucket, or give one of an earlier version the configuration of today."""
        try:
            return await self._jetstream.create_key_value(config)
        except nats.js.errors.BadRequestError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise
        existing = (await self._jetstream.stream_info(f"KV_{config.bucket}")).config
        existing.allow_direct, existing.max_age = config.direct, config.ttl
        existing.num_replicas = config.replicas
        await self._jetstream.update_stream(existing)
        return await self._jetstream.key_value(config.bucket)


async def _changes(
    watcher: KeyValue.KeyWatcher, bucket: str, idle_s: float
) -> AsyncIterator[Entry | None]:
    while True:
        try:
            entry = await watcher.updates(timeout=idle_s)  # type: ignore[no-untyped-call]
        except (TimeoutError, nats.errors.TimeoutError):
            yield None
            continue
        except Unreachable as error:
            raise BusUnavailable(f"the watch of {bucket} broke off") from error
        if entry is None:  # the mark between what was there and what is new
            continue
        deleted = entry.value is None or entry.operation in ("DEL", "PURGE")
        yield Entry(entry.key, None if deleted else entry.value, entry.revision or 0)
