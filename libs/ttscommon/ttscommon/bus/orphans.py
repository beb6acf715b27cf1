"""Streams that a broker holds and its cluster does not know, which are about to be deleted.

They come to be when a single broker's store joins a cluster. The cluster then counts bytes of the
account and no stream of it.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from ttscommon.bus.faults import BusUnprepared, Unreachable, reason
from ttscommon.bus.link import Link

log_ = structlog.get_logger(__name__)

_PAUSE_S = 0.3


async def refuse_orphans(link: Link, timeout_s: float) -> None:
    """Raises BusUnprepared if the account has had bytes and no stream for `timeout_s`.

    A cluster that has just started may need a moment until it counts its streams.
    """
    until_s = time.monotonic() + timeout_s
    while held := await _bytes_without_streams(link):
        if time.monotonic() > until_s:
            raise BusUnprepared(
                f"the broker holds {held} bytes in streams that its cluster does not know, and "
                "will delete them within 30 s: a single broker's store joined the cluster. Stop "
                "that broker now; see docs/operations.md, 'From one broker to three'"
            )
        await asyncio.sleep(_PAUSE_S)


async def _bytes_without_streams(link: Link) -> int:
    """0 where there are streams, or where this user may not ask."""
    try:
        info = await asyncio.wait_for(link.jetstream.account_info(), link.api_s)
    except Unreachable as error:
        log_.warning("bus.orphans_unknown", error=reason(error))
        return 0
    return 0 if info.streams else int(info.storage)
