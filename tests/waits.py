"""How long tests wait for what is to come."""

import asyncio
from collections.abc import Callable
from typing import Final

TIMEOUT_S: Final = 60.0
"""Where all goes well nothing waits for so long, however busy the machine is."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until it is so; raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():
            await asyncio.sleep(0.005)
