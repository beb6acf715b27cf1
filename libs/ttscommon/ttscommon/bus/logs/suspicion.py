"""Timing of a reader's repairs: when it has to suppose that something is missing."""

from __future__ import annotations

import asyncio


class Suspicion:
    """A gap or a reconnection arouses it at once, and so does a silence longer than a chunk's
    cadence: `first_s`, doubled up to `most_s` while nothing comes.

    behind: what was written before the reader subscribed is missing. lost: messages may be, so that
    the writer's word is not enough, for it may be another's log by now.
    """

    def __init__(self, first_s: float, most_s: float, *, behind: bool) -> None:
        self.behind = behind
        self.lost = False
        self._first_s = self._idle_s = first_s
        self._most_s = most_s
        self._aroused = asyncio.Event()
        if behind:
            self._aroused.set()

    def arouse(self) -> None:
        self._aroused.set()

    async def on_reconnect(self) -> None:
        self.lost = True
        self._aroused.set()

    def heard(self) -> None:
        """Something came: the next silence is short again."""
        self._idle_s = self._first_s

    async def wait(self) -> None:
        """Until it is aroused, or nothing has come for long."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._aroused.wait()
        except TimeoutError:
            self._idle_s = min(self._idle_s * 2, self._most_s)
            self.lost = True
        self._aroused.clear()

    def settle(self) -> bool:
        """Begin to look into it; whether messages may have been lost."""
        lost, self.behind, self.lost = self.lost, False, False
        return lost
