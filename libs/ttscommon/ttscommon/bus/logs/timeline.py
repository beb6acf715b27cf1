"""One reader's view of a log, as pure logic: no clock, no network.

Records reach a reader live (at once, but perhaps lost, repeated, out of order, or from a
writer that has been superseded) and from the log (late, but true). `Timeline` turns both into
one sequence that is ordered, gapless and free of duplicates, by position: a successor may cut
its chunks elsewhere, so a record that overlaps what was delivered is trimmed, not dropped.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Final

from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    End,
    LogRecord,
    Position,
    Takeover,
)

MAX_HELD: Final = 1024
# Enough of what was committed to bridge what followers of a leader that died do not show yet.
MAX_KEPT: Final = 4


class Timeline:
    """Merges records from position `start` on.

    Invariants: `next` only grows; every position from `start` to `next` was delivered once;
    at most one End is delivered, and nothing after it. `checkpoint` is that of the last chunk, if
    it was one of audio. `keeps`: what was delivered may be offered to a successor of the writer.
    """

    def __init__(self, start: int = 0, *, keeps: bool = True) -> None:
        self.next = start
        self._keeps = keeps
        self.epoch = 0
        self.ended = False
        self.checkpoint = Checkpoint()
        self._known = start
        self._end: End | None = None
        self._end_committed = False
        self._held: list[tuple[int, int, bool, Chunk]] = []
        self._arrivals = 0
        self._uncommitted: deque[Chunk] = deque()
        self._committed: deque[Chunk] = deque(maxlen=MAX_KEPT)

    @property
    def gap(self) -> bool:
        """Something later is here, or is known to have been sent, but not what comes next."""
        if self.ended:
            return False
        return bool(self._held) or self._end is not None or self._known > self.next

    @property
    def end(self) -> End | None:
        """The End, if the log is known to hold it."""
        return self._end if self._end_committed else None

    @property
    def gone(self) -> bool:
        """The log holds something later, so it never will hold what comes next: it was dropped."""
        return self.gap and (self._end_committed or any(held[2] for held in self._held))

    def feed_live(self, record: LogRecord) -> list[Chunk | End]:
        """Take a live copy; returns what can be delivered now, in order."""
        if self.ended or record.epoch < self.epoch:
            return []
        if record.epoch > self.epoch:
            self._supersede(record.epoch)
        return self._feed(record, committed=False)

    def feed_log(self, record: LogRecord) -> list[Chunk | End]:
        """Take a record read from the log: true whatever its epoch."""
        if self.ended:
            return []
        if record.epoch > self.epoch:
            self._supersede(record.epoch)
        ready = self._feed(record, committed=True)
        self.committed(record.end)
        return ready

    def committed(self, position: int) -> None:
        """The log is known to hold everything before `position`."""
        while self._uncommitted and self._uncommitted[0].end <= position:
            self._committed.append(self._uncommitted.popleft())

    def heard(self, position: int) -> list[Chunk | End]:
        """What was delivered from `position` on, as far as it is kept: all that is not known to be
        committed, and the last of what is.
        """
        kept = (*self._committed, *self._uncommitted)
        chunks: list[Chunk | End] = [chunk for chunk in kept if chunk.end > position]
        if self.ended and self._end is not None:
            chunks.append(self._end)
        return chunks

    def _supersede(self, epoch: int) -> None:
        """A successor writes now: what its predecessor sent live and no reader has is void."""
        self.epoch = epoch
        self._held = [held for held in self._held if held[2]]
        if self._end is not None and not self._end_committed:
            self._end = None

    def _feed(self, record: LogRecord, *, committed: bool) -> list[Chunk | End]:
        if isinstance(record, End):
            self._end, self._end_committed = record, committed
        elif isinstance(record, Position):
            self._known = max(self._known, record.end)
        elif not isinstance(record, Takeover) and record.end > self.next:
            self._hold(record, committed)
        return self._release()

    def _hold(self, chunk: Chunk, committed: bool) -> None:
        same = (c for c in self._held if (c[3].start, c[3].end) == (chunk.start, chunk.end))
        if (held := next(same, None)) is not None:
            if not committed or held[2]:
                return
            self._held.remove(held)  # the log's copy says more: nothing before it will come
        self._arrivals += 1
        insort(self._held, (chunk.start, self._arrivals, committed, chunk))
        if len(self._held) > MAX_HELD:
            self._held.pop()  # the farthest ahead comes again from the log

    def _release(self) -> list[Chunk | End]:
        ready: list[Chunk | End] = []
        while self._held and self._held[0][0] <= self.next:
            _, _, committed, chunk = self._held.pop(0)
            if chunk.end <= self.next:
                continue
            part = chunk if chunk.start == self.next else chunk.tail(self.next)
            self.next = part.end
            if isinstance(part, AudioChunk):
                self.checkpoint = part.checkpoint
            if self._keeps:
                (self._committed if committed else self._uncommitted).append(part)
            ready.append(part)
        if self._end is not None and self._end.start <= self.next:
            self.ended = True
            self._held.clear()
            ready.append(self._end)
        return ready
