"""This gateway's hold of a book: its record, written until another gateway has it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from msgspec.structs import replace

from gateway.books.job_store import FoundBook, JobStore, key_of
from gateway.books.records import BookRecord, PortionMade
from ttscommon.wire.errors import BusUnavailable

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


__all__ = ["BookHold", "BookLost", "HoldTuning"]
