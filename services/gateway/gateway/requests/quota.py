"""Counts of a tenant's records that are older than a new one, whichever gateway stored them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Final

from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable

_OWNER_CHARACTERS: Final = 16
# A replica of the broker has a new record within milliseconds.
_SEEN_S: Final = 5.0
_LOOK_S: Final = 0.02


def owner_of(tenant: str) -> str:
    """What a tenant's keys begin with."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:_OWNER_CHARACTERS]


async def older(bus: Bus, bucket: str, pattern: str, key: str, revision: int) -> int:
    """Of the keys that match `pattern`, those that were there before `key` got its `revision`.

    The broker numbers records: however many come at once, each finds the same ones before it. Any
    replica may answer, and lag behind. Raises BusUnavailable, and then the record is gone.
    """
    until_s = time.monotonic() + _SEEN_S
    while time.monotonic() < until_s:
        latest = {entry.key: entry for entry in await bus.kv.entries(bucket, pattern)}
        if key in latest and latest[key].revision >= revision:
            return sum(e.value is not None and e.revision < revision for e in latest.values())
        await asyncio.sleep(_LOOK_S)
    await bus.kv.delete(bucket, key, revision)
    raise BusUnavailable("the broker does not show the record that it stored")
