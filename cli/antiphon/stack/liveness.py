"""Liveness of a service: an answer at its admin port, which one that hangs does not give."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

_PERIOD_S: Final = 1.0
_ANSWER_S: Final = 2.0
_ASK: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


async def until_silent(port: int, silent_s: float) -> None:
    """Return when nothing was answered for so long, whatever the answers said."""
    heard_s = time.monotonic()
    while True:
        if await answers(port):
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s >= silent_s:
            return
        await asyncio.sleep(_PERIOD_S)


async def answers(port: int) -> bool:
    """Whether anything comes back in time. A process that is stopped still accepts connections."""
    writer = None
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_ASK)
            return bool(await reader.read(1))
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
