"""The writing half of a log: a chunk is delivered at once, by its commit or right before it."""

from __future__ import annotations

import asyncio
import time

import msgspec
import structlog

from ttscommon.bus import offers
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore
from ttscommon.bus.takeover import DEFAULT_TUNING, Predecessor, WriterTuning, find_predecessor
from ttscommon.bus.timeline import Timeline
from ttscommon.bus.window import Pending, Window
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire.epochs import is_first
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Fenced
from ttscommon.wire.messages import (
    Checkpoint,
    Chunk,
    CodecChunk,
    End,
    LogRecord,
    Takeover,
    encode,
)
from ttscommon.wire.subjects import Log

log_ = structlog.get_logger(__name__)


class LogWriter:
    """The one writer of a request's log.

    Records not yet committed are kept, up to a full window (then `put` waits), and sent
    again when a reader asks (NACK) or the connection comes back. The fence is the subject's last
    sequence: as soon as a successor has committed its Takeover, every later `put`, `end` or
    `close` here raises Fenced.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        log: Log,
        request_id: str,
        epoch: int,
        tenant: str = "",
        tuning: WriterTuning = DEFAULT_TUNING,
    ) -> None:
        self.restored: list[Chunk] = []
        self.checkpoint = Checkpoint()
        self.position = 0
        self.ended = False
        self.found_end: End | None = None
        self._link = link
        self._logs = logs
        self._tuning = tuning
        self._log = log
        self._request_id = request_id
        self._epoch = epoch
        self._tenant = tenant
        self._sequence = 0
        self._settled = True
        self._committed = 0
        self._written = 0
        self._window = Window(tuning.window, tuning.recent)
        self._live = log.live(request_id)
        self._subscription: object | None = None
        self._committer: asyncio.Task[None] | None = None

    async def open(self, *, restore: bool, fresh: bool | None = None) -> None:
        """Start at the log's beginning (a request's first epoch) or take the log over.

        `fresh` says which, where the epoch does not: it may have written here before. After a
        takeover `position` is where to go on, `checkpoint` an audio log's last one, and, with
        `restore`, `restored` holds everything before, but for a beginning that a full store
        dropped. Raises Fenced if a later epoch owns the log already, BusUnavailable.
        """
        fresh = is_first(self._epoch) if fresh is None else fresh
        began_s = time.monotonic()
        if not fresh:
            await self._take_over(restore=restore)
        found = self.position
        nack = self._log.nack(self._request_id)
        self._subscription = await self._link.subscribe(nack, self._on_nack)
        self._link.on_reconnect(self._resend_window)
        self._committer = asyncio.create_task(self._commit_loop(), name=f"commit-{nack}")
        if not fresh:
            await self._find_readers(restore=restore)
        if not fresh:
            log_.info(
                "log.taken_over",
                log=self._log.prefix,
                request_id=self._request_id,
                position=found,
                adopted=self.position - found,
                settled=self._settled,
                took_s=round(time.monotonic() - began_s, 3),
            )

    async def put(self, chunk: Chunk) -> None:
        """Deliver `chunk`, which must start at `position`; waits only for room in the window."""
        self._require_next(chunk)
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

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything is committed, then let go.

        Raises Fenced, LogUnwritable, or BusUnavailable when the broker stayed away for `timeout_s`.
        """
        try:
            async with asyncio.timeout(self._tuning.close_s if timeout_s is None else timeout_s):
                await self._window.until(lambda: self._settled and self._window.empty)
        except TimeoutError:
            raise BusUnavailable("the log could not be committed in time") from None
        finally:
            await self.release()
        if self._window.failure is not None:
            raise self._window.failure

    async def release(self) -> None:
        """Let go at once, committed or not; safe to call twice."""
        self._link.off_reconnect(self._resend_window)
        if self._subscription is not None:
            await self._link.unsubscribe(self._subscription)
            self._subscription = None
        if self._committer is not None:
            await stop(self._committer)
            self._committer = None

    def _require_next(self, chunk: Chunk) -> None:
        if chunk.start != self.position:
            raise ValueError(f"chunk starts at {chunk.start}, the log is at {self.position}")
        if self.ended:
            raise ValueError("the log has its end already")

    async def _append(self, record: LogRecord) -> None:
        """Readers hear a commit on its way to the log: what has to wait for its own goes live."""
        pending = self._pending(record)
        at_once = self._settled and self._window.empty
        await self._window.add(pending)
        if not at_once:
            await self._send(pending)

    def _pending(self, record: LogRecord) -> Pending:
        own = msgspec.structs.replace(record, epoch=self._epoch)
        return Pending(own, encode(own))

    async def _take_over(self, *, restore: bool) -> None:
        """Fence the predecessor and begin where it ended, as far as anybody can tell now."""
        while True:
            found = await find_predecessor(
                self._logs, self._log, self._request_id, self._epoch, self._tuning, restore=restore
            )
            self.position, self.checkpoint = found.position, found.checkpoint
            self.restored, self.ended, self.found_end = found.restored, found.ended, found.end
            self._committed = self.position
            if self.ended:
                return  # whoever ended it: there is nothing left to own
            self._settled = False
            if not found.certain or await self._fence_in_time(found):
                break  # else the predecessor got one more record in: look again
        await self._send(self._takeover())  # readers stop heeding the predecessor

    async def _fence_in_time(self, found: Predecessor) -> bool:
        """False if the predecessor was faster. A leader that is slow or gone is not waited for:
        the fence is then committed as soon as there is one, and audio goes on meanwhile.
        """
        try:
            async with asyncio.timeout(self._tuning.leader_s):
                return await self._fence(found)
        except (TimeoutError, BusUnavailable):
            return True

    async def _fence(self, tail: Predecessor) -> bool:
        """Commit the Takeover right behind `tail`; False if there is something else by now.

        Raises LogUnwritable, BusUnavailable.
        """
        self._sequence = tail.sequence
        if not tail.own:
            takeover = Takeover(self._request_id, tail.position, self._epoch, tail.checkpoint)
            try:
                self._sequence = await self._commit(takeover, encode(takeover), owning=False)
            except Fenced:
                return False
        self._window.skip_to(tail.position, self._pending)
        self._committed = max(self._committed, tail.position)
        self._settled = True
        return True

    async def _settle(self) -> None:
        """Commit a Takeover that had to wait for the log's leader.

        What the predecessor got in beyond `position` meanwhile is true: it is not written again.
        Raises Fenced, LogUnwritable, BusUnavailable.
        """
        while not self._settled and not await self._fence(await self._tail()):
            pass

    async def _tail(self) -> Predecessor:
        """The log's end as its leader has it; raises Fenced if it is not to be written any more."""
        tail = Predecessor.of(
            await self._logs.last(self._log, self._request_id, self._tuning.close_s), self._epoch
        )
        if tail.ended:
            raise Fenced(f"the log of {self._request_id} has its end", owner=tail.epoch)
        return tail

    async def _find_readers(self, *, restore: bool) -> None:
        """Commit first what readers got live and the log lacks: nobody may hear two versions."""
        if self.ended:
            return
        heard = await offers.ask(
            self._link, self._log, self._request_id, self.position, self._tuning.offer_s
        )  # nothing if nobody listens: sampling is deterministic, so it comes out the same anyway
        timeline = Timeline(self.position)
        for record in heard:
            for ready in timeline.feed_log(record):
                if isinstance(ready, End):
                    await self.end(ready)
                else:
                    await self.put(ready)
                    if restore:
                        self.restored.append(ready)

    async def _commit_loop(self) -> None:
        try:
            await self._settle()
            while True:
                pending = await self._window.oldest()
                self._sequence = await self._commit(pending.record, pending.data)
                self._committed = pending.record.end
                self._window.committed()
        except AntiphonError as error:
            self._window.fail(error)

    async def _commit(self, record: LogRecord, data: bytes, *, owning: bool = True) -> int:
        self._written += 1
        writer = f"{self._link.worker_id}.{self._epoch}"
        message_id = f"{self._log.subject(self._request_id)}.{writer}.{self._written}"
        return await self._logs.commit(
            self._log,
            self._request_id,
            data,
            last=self._sequence,
            message_id=message_id,
            epoch=self._epoch if owning else None,
            tenant=self._tenant,
        )

    def _takeover(self) -> Pending:
        return self._pending(
            Takeover(self._request_id, self.position, self._epoch, self.checkpoint)
        )

    async def _send(self, pending: Pending) -> None:
        await self._link.send_raw(self._live, pending.data, {"C": str(self._committed)})

    async def _on_nack(self, message: Incoming) -> None:
        try:
            position = int(message.data)
        except ValueError:
            return
        if not message.reply:
            return
        epoch = self._epoch if self._keeps(position) else 0
        kept = [pending.data for pending in self._window.behind(position)]
        await offers.send_again(self._link, message, epoch, kept)

    def _keeps(self, position: int) -> bool:
        """All that there is from `position` on is here."""
        start = self._window.start
        return self._settled and position >= (self.position if start is None else start)

    async def _resend_window(self) -> None:
        for pending in self._window:
            await self._send(pending)
