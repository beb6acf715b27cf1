"""Recordings in JetStream's object store: those of voices that are kept, those that pass by."""

from __future__ import annotations

from typing import Final

import nats.js.errors
from nats.js.api import ObjectStoreConfig
from nats.js.object_store import ObjectStore

from ttscommon import subjects
from ttscommon.bus.faults import STREAM_NAME_IN_USE, Unreachable
from ttscommon.bus.link import Link
from ttscommon.errors import BusUnavailable

# Seconds that an object lives (None: for ever), and bytes that all of them may take.
_AGE_S: Final = {subjects.RECORDINGS: None, subjects.PASSING_RECORDINGS: 3600.0}
_MOST_BYTES: Final = {subjects.RECORDINGS: 4 << 30, subjects.PASSING_RECORDINGS: 1 << 30}


class Objects:
    """All access to the object store; buckets are created when first used."""

    def __init__(self, link: Link) -> None:
        self._jetstream = link.jetstream
        self._replicas = link.settings.replicas
        self._open: dict[str, ObjectStore] = {}

    async def put(self, bucket: str, name: str, data: bytes) -> None:
        """Store `data`; raises BusUnavailable, also when the store is full."""
        try:
            await (await self._bucket(bucket)).put(name, data)
        except Unreachable as error:
            raise BusUnavailable(f"could not store {bucket}/{name}") from error

    async def get(self, bucket: str, name: str) -> bytes | None:
        """What is stored, or None; raises BusUnavailable."""
        try:
            found = await (await self._bucket(bucket)).get(name)
        except nats.js.errors.NotFoundError:
            return None
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{name}") from error
        return found.data

    async def has(self, bucket: str, name: str) -> bool:
        """Whether it is there; raises BusUnavailable."""
        try:
            await (await self._bucket(bucket)).get_info(name)
        except nats.js.errors.NotFoundError:
            return False
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{name}") from error
        return True

    async def delete(self, bucket: str, name: str) -> None:
        """Remove it, if it is there; raises BusUnavailable."""
        try:
            await (await self._bucket(bucket)).delete(name)
        except nats.js.errors.NotFoundError:
            return
        except Unreachable as error:
            raise BusUnavailable(f"could not delete {bucket}/{name}") from error

    async def _bucket(self, bucket: str) -> ObjectStore:
        if bucket not in self._open:
            config = ObjectStoreConfig(
                ttl=_AGE_S[bucket], max_bytes=_MOST_BYTES[bucket], replicas=self._replicas
            )
            try:
                found = await self._jetstream.create_object_store(bucket, config)
            except nats.js.errors.BadRequestError as error:
                if error.err_code != STREAM_NAME_IN_USE:
                    raise
                found = await self._jetstream.object_store(bucket)
            self._open[bucket] = found
        return self._open[bucket]
