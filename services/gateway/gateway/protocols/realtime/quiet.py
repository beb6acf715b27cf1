"""The time that a user says nothing behind what was spoken to him: `idle_timeout_ms`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ttscommon.process.tasks import stop


class QuietTimer:
    """begun: called when the sound that was sent has been played. over: called when nothing was
    said for the time behind that.
    """

    def __init__(self, begun: Callable[[], None], over: Callable[[], Awaitable[None]]) -> None:
        self._begun, self._over = begun, over
        self._task: asyncio.Task[None] | None = None
        self._due = False

    def start(self, played_s: float, limit_s: float) -> None:
        """Sound was sent that is played for `played_s` from now; what ran before does not count."""
        self.stop()
        if not self._due:
            self._task = asyncio.create_task(self._run(played_s, limit_s), name="session-quiet")

    def stop(self) -> None:
        """The user, or his client, has done something. What has begun is done."""
        if self._task is not None and not self._due:
            self._task.cancel()

    async def close(self) -> None:
        if self._task is not None:
            await stop(self._task)

    async def _run(self, played_s: float, limit_s: float) -> None:
        await asyncio.sleep(played_s)
        self._begun()
        await asyncio.sleep(limit_s)
        self._due = True
        try:
            await self._over()
        finally:
            self._due = False
