"""Recordings in JetStream's object store: those of voices that are kept, those that pass by."""

from __future__ import annotations

import nats.js.errors
from nats.js.object_store import ObjectStore

from ttscommon.bus.faults import Unreachable
from ttscommon.bus.link import Link
from ttscommon.wire.errors import BusUnavailable


class Objects:
    """All access to the object store, which `antiphon bus` makes."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jetstream = link.jetstream
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
            self._open[bucket] = await self._jetstream.object_store(self._link.name(bucket))
        return self._open[bucket]
