"""Requests that wait for room, not to be refused: bounded, in order, and for so long at most."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ttscommon.wire.errors import AntiphonError, Overloaded

# One key leaves places to the others.
_SHARE: Final = 4

Ask = Callable[[], Overloaded | None]


@dataclass(frozen=True, eq=False)
class _Place:
    """One that waits. `objection`: why it may not start yet; raises what waiting does not mend."""

    tenant: str
    model: str
    objection: Ask
    called: asyncio.Future[None]


class WaitingRoom:
    """Of one gateway. `most`: that wait at once, of one key a quarter of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: list[_Place] = []
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queue)

    async def wait(self, tenant: str, model: str, most_s: float, objection: Ask) -> bool:
        """Return when there is no objection, or after `most_s`; whether it had to wait.

        The first that came is asked first. Returns at once where as many wait as may.
        """
        if (not self._queue and objection() is None) or self._is_full(tenant):
            return False
        loop = asyncio.get_running_loop()
        place = _Place(tenant, model, objection, loop.create_future())
        self._queue.append(place)
        self._held[tenant] += 1
        self.room()  # those who came before are asked before it is
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await place.called
        finally:
            self._leave(place)
            loop.call_soon(self.room)  # by then it has taken what it was called for
        return True

    def room(self) -> None:
        """There may be room: call the first that may start. What holds one of a key and model back
        holds back those of the same behind it, so each is asked about once.
        """
        asked: set[tuple[str, str]] = set()
        for place in self._queue:
            if place.called.done():
                return  # it is about to take its room
            if (kind := (place.tenant, place.model)) in asked:
                continue
            asked.add(kind)
            if self._may_start(place):
                return

    def _may_start(self, place: _Place) -> bool:
        try:
            if place.objection() is not None:
                return False
        except AntiphonError as error:
            place.called.set_exception(error)
        else:
            place.called.set_result(None)
        return True

    def _is_full(self, tenant: str) -> bool:
        share = max(1, self._most // _SHARE)
        return len(self._queue) >= self._most or self._held[tenant] >= share

    def _leave(self, place: _Place) -> None:
        self._queue.remove(place)
        self._held[place.tenant] -= 1
        if not self._held[place.tenant]:
            del self._held[place.tenant]
