"""Records that a log's writer has delivered and not committed yet, and a few committed ones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import End, LogRecord, Position, Takeover


@dataclass(frozen=True)
class Pending:
    """A record, and how it is written."""

    record: LogRecord
    data: bytes


class Uncommitted:
    """At most `room` records that wait for their commit, oldest first.

    Once it has failed, every waiter gets the error.
    """

    def __init__(self, room: int, recent: int) -> None:
        self.failure: AntiphonError | None = None
        self._room = room
        self._waiting: deque[Pending] = deque()
        self._recent: deque[Pending] = deque(maxlen=recent)
        self._changed: list[asyncio.Future[None]] = []

    def __iter__(self) -> Iterator[Pending]:
        """What is not committed."""
        return iter(list(self._waiting))

    @property
    def empty(self) -> bool:
        return not self._waiting

    @property
    def start(self) -> int | None:
        """The position from which on everything is here; None if nothing is."""
        kept = self._recent or self._waiting
        return kept[0].record.start if kept else None

    async def add(self, pending: Pending) -> None:
        """Waits for room."""
        await self._wait(lambda: len(self._waiting) < self._room or self.failure is not None)
        if self.failure is not None:
            raise self.failure
        self._waiting.append(pending)
        self._tell()

    async def oldest(self) -> Pending:
        """What is to be committed next; waits for it."""
        await self._wait(lambda: bool(self._waiting))
        return self._waiting[0]

    def committed(self) -> None:
        """The oldest one is."""
        self._recent.append(self._waiting.popleft())
        self._tell()

    def skip_to(self, position: int, rewrite: Callable[[LogRecord], Pending]) -> None:
        """Drop what the log holds already; a record that it holds half of is rewritten."""
        while self._waiting and self._waiting[0].record.end <= position:
            if isinstance(self._waiting[0].record, End):
                break
            self._waiting.popleft()
        if self._waiting and self._waiting[0].record.start < position:
            chunk = self._waiting[0].record
            if not isinstance(chunk, End | Position | Takeover):
                self._waiting[0] = rewrite(chunk.tail(position))
        self._tell()

    def fail(self, error: AntiphonError) -> None:
        """Nothing more can be committed."""
        self.failure = error
        self._waiting.clear()
        self._tell()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done`, which is asked after every change, or it has failed."""
        await self._wait(lambda: self.failure is not None or done())

    def behind(self, position: int) -> list[Pending]:
        """What a reader may lack that has everything before `position`."""
        return [
            pending
            for pending in (*self._recent, *self._waiting)
            if pending.record.end > position or isinstance(pending.record, End)
        ]

    async def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.append(change)
            await change

    def _tell(self) -> None:
        changed, self._changed = self._changed, []
        for change in changed:
            if not change.done():
                change.set_result(None)


class Tail:
    """The last `room` bytes of what was sent live, oldest first; at least one record is kept.

    `start`: the position of the first sample that is still here; what is asked for before it has
    left. Everything from there to what was sent last is here.
    """

    def __init__(self, room: int, start: int = 0) -> None:
        self.start = start
        self._room = room
        self._bytes = 0
        self._sent: deque[Pending] = deque()

    def add(self, pending: Pending) -> None:
        self._sent.append(pending)
        self._bytes += len(pending.data)
        while self._bytes > self._room and len(self._sent) > 1:
            gone = self._sent.popleft()
            self._bytes -= len(gone.data)
            self.start = gone.record.end

    def begin(self, start: int) -> None:
        """Forget all: what is sent next starts there."""
        self._sent.clear()
        self._bytes, self.start = 0, start

    def behind(self, position: int, most: int) -> list[Pending]:
        """What a reader lacks that has everything before `position`, of about `most` bytes."""
        found: list[Pending] = []
        size = 0
        for pending in self._sent:
            if pending.record.end <= position and not isinstance(pending.record, End):
                continue
            if found and size + len(pending.data) > most:
                break
            found.append(pending)
            size += len(pending.data)
        return found
