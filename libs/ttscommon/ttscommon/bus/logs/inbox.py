"""Records that have come for a reader, bounded, and when it supposes that one is missing."""

from __future__ import annotations

import asyncio
from collections import deque

from ttscommon.bus.logs.timeline import Timeline
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import Chunk, End, LogRecord


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


class Inbox:
    """Records come in as they are heard or read, and leave in order, each once; see Timeline.

    `more`: something had no room, and is asked for again when there is. `failure` ends the reading.
    """

    def __init__(
        self, timeline: Timeline, suspicion: Suspicion, most: int = 0, supply: int = 0
    ) -> None:
        """At most `most` records come live; `supply` of them are enough to go on with."""
        self.timeline = timeline
        self.more = False
        self.failure: AntiphonError | None = None
        self._suspicion = suspicion
        self._most, self._supply = most, supply
        self._ready: deque[Chunk | End] = deque()
        self._arrived = asyncio.Event()
        self._stopped = False

    @property
    def over(self) -> bool:
        """Nothing is missing any more, or nothing can be done for it."""
        return self.timeline.ended or self.failure is not None

    @property
    def supplied(self) -> bool:
        """What is missing can wait until more of what is here was read."""
        return len(self._ready) >= self._supply

    @property
    def hungry(self) -> bool:
        """It is wanted now."""
        return len(self._ready) <= self._supply // 4

    def takes(self, record: LogRecord) -> bool:
        """Whether there is room for a live record; if not, it is asked for when there is."""
        if self._has_room(record):
            return True
        self.more = True
        return False

    def _has_room(self, record: LogRecord) -> bool:
        del record
        return len(self._ready) < self._most

    def take_live(self, record: LogRecord) -> None:
        """A copy that was heard: perhaps of a writer that was superseded."""
        self._deliver(self.timeline.feed_live(record))

    def take_logged(self, record: LogRecord) -> None:
        """A record that the log holds."""
        self._deliver(self.timeline.feed_log(record))

    async def next(self) -> Chunk | End:
        """Raises StopAsyncIteration behind the End, and what the reading failed with."""
        while not self._ready:
            if self.timeline.ended or self._stopped:
                raise StopAsyncIteration
            if self.failure is not None:
                raise self.failure
            self._arrived.clear()
            await self._arrived.wait()
        if self._stopped:
            raise StopAsyncIteration
        return self._taken()

    def at_hand(self) -> Chunk | End | None:
        """The next record, if it is here already."""
        return self._taken() if self._ready and not self._stopped else None

    def stop(self) -> None:
        """Deliver nothing more."""
        self._stopped = True
        self._arrived.set()

    def fail(self, error: AntiphonError) -> None:
        """What comes next never will."""
        self.failure = error
        self._arrived.set()

    def ask_if_hungry(self) -> None:
        """Have what had no room asked for, now that there is some."""
        if self.more and self.hungry:
            self._suspicion.arouse()

    def _taken(self) -> Chunk | End:
        record = self._ready.popleft()
        self.ask_if_hungry()
        return record

    def _deliver(self, ready: list[Chunk | End]) -> None:
        if ready:
            self._ready.extend(ready)
            self._suspicion.heard()
            self._arrived.set()
        if self.timeline.gap:
            self._suspicion.arouse()
