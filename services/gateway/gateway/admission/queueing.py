"""Requests that would rather wait than be refused: bounded, in order, and for so long at most."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from ttscommon.wire.errors import Overloaded

# Room also comes about in ways that this gateway is not told of at once.
_LOOK_S: Final = 0.25
# One key leaves places to the others.
_SHARE: Final = 4


class WaitingRoom:
    """Of one gateway. `most`: that wait at once, of one key a quarter of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[asyncio.Event] = deque()
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queue)

    async def wait(self, tenant: str, most_s: float, ask: Callable[[], Overloaded | None]) -> float:
        """Return when `ask` has no objection, or after `most_s`; seconds that it took.

        The first that came asks first. Returns at once where as many wait as may.
        """
        began_s = time.monotonic()
        if (not self._queue and ask() is None) or self._is_full(tenant):
            return 0.0
        turn = asyncio.Event()
        self._queue.append(turn)
        self._held[tenant] += 1
        self.room()  # those who came before ask before it does
        try:
            while (left_s := began_s + most_s - time.monotonic()) > 0:
                await _within(turn, min(left_s, _LOOK_S))
                turn.clear()
                if ask() is None:
                    break
                self._next(turn)
        finally:
            self._leave(turn, tenant)
        return time.monotonic() - began_s

    def room(self) -> None:
        """There may be room: let the first ask."""
        if self._queue:
            self._queue[0].set()

    def _is_full(self, tenant: str) -> bool:
        share = max(1, self._most // _SHARE)
        return len(self._queue) >= self._most or self._held[tenant] >= share

    def _next(self, turn: asyncio.Event) -> None:
        """What is not for this one may be for the one behind it."""
        place = self._queue.index(turn) + 1
        if place < len(self._queue):
            self._queue[place].set()

    def _leave(self, turn: asyncio.Event, tenant: str) -> None:
        self._queue.remove(turn)
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self.room()


async def _within(turn: asyncio.Event, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await turn.wait()
    except TimeoutError:
        return
