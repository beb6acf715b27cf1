"""How a gateway's health fares beside an attack."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from ttscommon.process.tasks import stop


@contextlib.asynccontextmanager
async def probed(stand: Any, attack: str) -> AsyncIterator[None]:
    """Ask for the gateway's health, and print how long the longest answer took."""
    worst_s = 0.0

    async def probe() -> None:
        nonlocal worst_s
        while True:
            begun_s = time.monotonic()
            assert (await stand.http.get("/health")).status_code == 200
            worst_s = max(worst_s, time.monotonic() - begun_s)
            await asyncio.sleep(0.02)

    probing = asyncio.create_task(probe())
    try:
        yield
    finally:
        if probing.done():
            probing.result()
        await stop(probing)
        print(f"\n{attack}: worst probe {1000 * worst_s:.0f} ms")
