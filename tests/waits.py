"""How long tests wait for what is to come."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Final

TIMEOUT_S: Final = 60.0
"""Where all goes well nothing waits for so long, however busy the machine is."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until what it returns, or what that brings, is so; raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S):
        while not (await found if isawaitable(found := holds()) else found):
            await asyncio.sleep(0.005)
