"""Owners of books that are gone, or have stopped writing. Each gateway judges by its own clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.books.job_store import FoundBook
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders

# An owner writes every three seconds.
_SILENT_S: Final = 12.0
_PING_S: Final = 0.5
# A connection that was lost is back within it, or the process is gone.
_ABSENT_S: Final = 1.5


@dataclass
class _Watched:
    revision: int
    since_s: float
    absent_s: float | None = None


class Staleness:
    """One gateway's view. Time in which it saw nothing does not count against an owner."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._watched: dict[str, _Watched] = {}

    def blind(self) -> None:
        """The broker did not answer: begin to count anew."""
        self._watched.clear()

    def keep(self, books: Iterable[str]) -> None:
        """Forget all others."""
        keep = set(books)
        self._watched = {name: one for name, one in self._watched.items() if name in keep}

    async def of(self, found: FoundBook) -> bool:
        """Whether a book has no owner that lives; raises BusUnavailable."""
        record, now = found.record, time.monotonic()
        if not record.owner:
            return True
        if record.owner == self._bus.worker_id:
            return True  # of a hold that ended here with an error
        watched = self._watched.get(record.book_id)
        if watched is None or watched.revision != found.revision:
            absent_s = None if watched is None else watched.absent_s
            watched = _Watched(found.revision, now, absent_s)
            self._watched[record.book_id] = watched
        elif now - watched.since_s >= _SILENT_S:
            return True
        return await self._is_gone(record.owner, watched, now)

    async def _is_gone(self, owner: str, watched: _Watched, now: float) -> bool:
        """No process of this name is connected, and has not been for a while."""
        try:
            await self._bus.link.request(subjects.ping(owner), b"", _PING_S)
        except NoResponders:
            if watched.absent_s is None:
                watched.absent_s = now
            return now - watched.absent_s >= _ABSENT_S
        except BusUnavailable:
            return False
        watched.absent_s = None
        return False
