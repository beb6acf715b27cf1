"""Turns in which the texts of jobs are read: one at a time, behind listeners' first sounds.

Reading computes beside the engine, and a job brings as many long texts as there are slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

# A listener's text may be long in coming: so long its first sound is waited for, text by text.
TIMEOUT_S: Final = 0.5


class ReadingTurns:
    """One talker's. To be made on its event loop."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._starting = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._one = asyncio.Lock()

    @contextmanager
    def starting(self, *, offline: bool) -> Iterator[None]:
        """A listener, if it has one, waits for its first chunk."""
        if offline:
            yield
            return
        self._starting += 1
        self._calm.clear()
        try:
            yield
        finally:
            self._starting -= 1
            if not self._starting:
                self._calm.set()

    @asynccontextmanager
    async def turn(self, *, offline: bool) -> AsyncIterator[None]:
        """Something of a text may be read: at once, unless no listener waits for it."""
        if not offline:
            yield
            return
        async with self._one:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._calm.wait()
            yield
