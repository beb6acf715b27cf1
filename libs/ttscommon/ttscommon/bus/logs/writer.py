"""The writing half of a log: a chunk is delivered at once, by its commit or right before it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

import structlog

from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.commits import Commits, Pending
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.takeover import DEFAULT_TUNING
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.process import tracing
from ttscommon.wire.epochs import is_first
from ttscommon.wire.errors import BusUnavailable, MalformedMessage
from ttscommon.wire.messages import Checkpoint, Chunk, CodecChunk, End, LogRecord, Takeover
from ttscommon.wire.repairs import COMMITTED, Nack, Offer, Resend

log_ = structlog.get_logger(__name__)


class RecordWriter(ABC):
    """The one writer of a request's log: its window of commits, and what it sends live.

    Records not yet committed are kept, up to a full window, and sent again when a reader asks
    (NACK) or the connection comes back. As soon as a successor has committed its Takeover, what is
    put raises Fenced, and so does `close`. position: where the next chunk begins.
    """

    def __init__(self, log: RequestLog, commits: Commits) -> None:
        self.position = 0
        self.restored: list[Chunk] = []
        self.checkpoint = Checkpoint()
        self.ended = False
        self._found_end: End | None = None
        self._log = log
        self._commits = commits
        self._subscription: object | None = None

    async def open(self, *, restore: bool, fresh: bool | None = None) -> None:
        """Start at the log's beginning (a request's first epoch) or take the log over.

        `fresh` says which, where the epoch does not: it may have written here before. After a
        takeover `position` is where to go on, `checkpoint` the last of a log of audio, and, with
        `restore`, `restored` holds everything before, but for a beginning that a full store
        dropped. Raises Fenced if a later epoch owns the log already, BusUnavailable.
        """
        began_s = time.monotonic()
        fresh = is_first(self._commits.epoch) if fresh is None else fresh
        if not fresh:
            await self._take_over(restore=restore)
        nack = self._log.nack
        self._subscription = await self._log.link.subscribe(nack, self._on_nack)
        self._log.link.on_reconnect(self._resend)
        self._commits.start()
        if not fresh:
            found = self.position
            await self._ask_readers(restore=restore)
            self._tell_of_takeover(found, began_s)

    @abstractmethod
    async def _ask_readers(self, *, restore: bool) -> None:
        """Learn from them what the log does not say."""

    @abstractmethod
    async def _send(self, pending: Pending) -> None:
        """Have readers hear it on a core subject."""

    @abstractmethod
    async def _on_nack(self, message: Incoming) -> None:
        """A reader lacks something, or tells what it has room for."""

    async def _resend(self) -> None:
        """The connection is back: what was sent last may be lost."""
        for pending in self._commits.window:
            await self._send(pending)

    async def settle(self) -> None:
        """Wait until everything so far is committed; raises Fenced, LogUnwritable."""
        await self._commits.window.until(lambda: self._commits.up_to_date)
        if self._commits.window.failure is not None:
            raise self._commits.window.failure

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything is committed, then let go.

        Raises Fenced, LogUnwritable, or BusUnavailable when the broker stayed away for `timeout_s`.
        """
        try:
            await self._commits.finish(timeout_s)
        finally:
            await self.release()
        if self._commits.window.failure is not None:
            raise self._commits.window.failure

    async def release(self) -> None:
        """Let go at once, committed or not; safe to call twice."""
        self._log.link.off_reconnect(self._resend)
        if self._subscription is not None:
            await self._log.link.unsubscribe(self._subscription)
            self._subscription = None
        await self._commits.stop()

    async def _take_over(self, *, restore: bool) -> None:
        """Begin where the predecessor ended, and have readers heed it no more."""
        found = await self._commits.take_over(restore=restore)
        self.position, self.checkpoint = found.position, found.checkpoint
        self.restored, self.ended, self._found_end = found.restored, found.ended, found.end
        if not found.ended:
            takeover = Takeover(
                self._log.request_id, self.position, self._commits.epoch, self.checkpoint
            )
            await self._send(self._commits.pending(takeover))

    def _tell_of_takeover(self, found: int, began_s: float) -> None:
        """`found`: where the predecessor had come to."""
        log_.info(
            "log.taken_over",
            log=self._log.kind.prefix,
            request_id=self._log.request_id,
            position=found,
            adopted=self.position - found,
            settled=self._commits.settled,
            took_s=round(time.monotonic() - began_s, 3),
        )


class LogWriter(RecordWriter):
    """The one writer of a log of codes or text, which holds all that is put.

    Readers hear a commit on its way to the log as well: only what has to wait for it goes live.
    """

    def __init__(self, log: RequestLog, epoch: int, tenant: str = "") -> None:
        super().__init__(log, Commits(log, epoch, tenant, DEFAULT_TUNING))

    async def put(self, chunk: Chunk) -> None:
        """Deliver `chunk`, which must start at `position`; waits only for room in the window."""
        if chunk.start != self.position:
            raise ValueError(f"chunk starts at {chunk.start}, the log is at {self.position}")
        if self.ended:
            raise ValueError("the log has its end already")
        await self._append(chunk)
        self.position = chunk.end
        if isinstance(chunk, CodecChunk):
            tracing.first_chunk(chunk.spent[-1].engine_s if chunk.spent else 0.0)

    async def end(self, end: End) -> None:
        """Deliver the one End; a second is a mistake of the caller."""
        if self.ended:
            raise ValueError("the log has its end already")
        self.ended = True
        await self._append(end)

    async def _append(self, record: LogRecord) -> None:
        pending = self._commits.pending(record)
        at_once = self._commits.up_to_date
        await self._commits.window.add(pending)
        if not at_once:
            await self._send(pending)

    async def _ask_readers(self, *, restore: bool) -> None:
        """Commit first what readers have and the log lacks: no listener may hear two versions."""
        if self.ended:
            return
        timeline = Timeline(self.position)
        for record in await self._heard():
            for ready in timeline.feed_log(record):
                if isinstance(ready, End):
                    await self.end(ready)
                else:
                    await self.put(ready)
                    if restore:
                        self.restored.append(ready)

    async def _heard(self) -> list[LogRecord]:
        """What a reader has that the log may lack. Nothing without one: sampling is deterministic,
        so it comes out the same anyway.
        """
        records: list[LogRecord] = []
        wanted = Nack(self.position).encode()
        try:
            told = await self._log.link.request(self._log.live, wanted, DEFAULT_TUNING.offer_s)
            records.extend(Offer.decode(told).parsed())
        except BusUnavailable:
            return []
        except MalformedMessage as error:
            log_.warning("offer.malformed", error=error.message)
        return records

    async def _send(self, pending: Pending) -> None:
        headers = {COMMITTED: str(self._commits.position)}
        await self._log.link.send_raw(self._log.live, pending.data, headers)

    async def _on_nack(self, message: Incoming) -> None:
        try:
            position = Nack.decode(message.data).position
        except MalformedMessage:
            return
        if not message.reply:
            return
        epoch = self._commits.epoch if self._keeps(position) else 0
        kept = [pending.data for pending in self._commits.window.behind(position)]
        await self._log.link.reply(message.reply, Resend.of(epoch, kept).encode())

    def _keeps(self, position: int) -> bool:
        """All that there is from `position` on is here."""
        start = self._commits.window.start
        return self._commits.settled and position >= (self.position if start is None else start)
