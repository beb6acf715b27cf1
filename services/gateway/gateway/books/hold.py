"""Owners of books: this gateway's hold, written until another gateway has it, and stale ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from msgspec.structs import replace

from gateway.books.job_store import FoundBook, JobStore, key_of
from gateway.books.records import BookRecord, PortionMade
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders

log_ = structlog.get_logger(__name__)


class BookLost(Exception):
    """Another gateway speaks the book, or it was deleted."""


@dataclass(frozen=True)
class HoldTuning:
    """A gateway's hold of a book."""

    beat_s: float = 3.0
    """Between two writes of a record in which nothing changed."""
    gather_s: float = 0.2
    """What changes within it is written at once."""
    again_s: float = 0.5
    """Between two attempts while the broker does not answer."""


class BookHold:
    """Of one book, from `take` to `let_go`. `run` meanwhile. `record` is as it will be written."""

    def __init__(self, job_store: JobStore, found: FoundBook, tuning: HoldTuning) -> None:
        self.record = found.record
        self._job_store = job_store
        self._revision = found.revision
        self._tuning = tuning
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    @classmethod
    async def take(
        cls,
        job_store: JobStore,
        found: FoundBook,
        owner: str,
        tuning: HoldTuning,
        now_unix_s: float,
    ) -> BookHold | None:
        """Become its owner; None if another gateway was first."""
        before = found.record
        record = replace(
            before,
            state="running",
            owner=owner,
            epoch=before.epoch + 1,
            running=(),
            encoded=0,
            started_unix_s=before.started_unix_s or now_unix_s,
        )
        revision = await job_store.write(record, found.revision)
        return None if revision is None else cls(job_store, FoundBook(record, revision), tuning)

    async def run(self) -> None:
        """Write what changes, and now and then that this gateway lives; raises BookLost."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tuning.beat_s):
                    await self._changed.wait()
                await asyncio.sleep(self._tuning.gather_s)
            await self.write()

    def change(self, **changes: Any) -> None:
        """To be written soon."""
        self.record = replace(self.record, **changes)
        self._changed.set()

    def made(self, index: int, sound: PortionMade, characters: int) -> None:
        """A portion's sound is stored."""
        record = self.record
        self.change(
            made={**record.made, index: sound},
            spoken=record.spoken + characters,
            samples=record.samples + sound.samples,
        )

    def unmade(self, index: int, characters: int) -> None:
        """The store has lost a portion's sound."""
        record = self.record
        lost = record.made[index]
        self.change(
            made={at: one for at, one in record.made.items() if at != index},
            spoken=record.spoken - characters,
            samples=record.samples - lost.samples,
        )

    async def let_go(self) -> None:
        """Another gateway may take it at once."""
        self.change(owner="", running=())
        await self.write()

    async def write(self) -> None:
        """As it is now, however long the broker takes; raises BookLost."""
        async with self._writing:
            while True:
                self._changed.clear()
                self.record = replace(self.record, beat=self.record.beat + 1)
                try:
                    if await self._written():
                        return
                except BusUnavailable as error:
                    log_.info("book.unwritten", job=self.record.book_id, error=error.message)
                await asyncio.sleep(self._tuning.again_s)

    async def _written(self) -> bool:
        revision = await self._job_store.write(self.record, self._revision)
        if revision is not None:
            self._revision = revision
            return True
        found = await self._job_store.look(key_of(self.record))
        # A write that the broker took and did not acknowledge was this gateway's own.
        if found is None or not _holds(self.record, found.record):
            raise BookLost
        self._revision = found.revision
        return False


def _holds(held: BookRecord, found: BookRecord) -> bool:
    return found.epoch == held.epoch and found.state != "removing"


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
