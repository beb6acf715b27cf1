"""Recordings in JetStream's object store: those of voices that are kept, those that pass by."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from typing import Final

import nats.js.errors
from nats.js.api import ObjectInfo
from nats.js.object_store import ObjectStore

from ttscommon.bus.direct import direct_get
from ttscommon.bus.faults import Unreachable
from ttscommon.bus.link import Link
from ttscommon.wire.errors import BusUnavailable

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
        try:
            await (await self._bucket(bucket)).put(name, data)
        except Unreachable as error:
            raise BusUnavailable(f"could not store {bucket}/{name}") from error

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
        except nats.js.errors.NotFoundError:
            return None
        except Unreachable as error:
            raise BusUnavailable(f"could not read {bucket}/{name}") from error

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
