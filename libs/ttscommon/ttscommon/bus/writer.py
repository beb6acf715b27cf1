"""The writing half of a log: a chunk is delivered live at once and committed right behind."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import msgspec

from ttscommon import tracing
from ttscommon.bus import offers
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore
from ttscommon.bus.timeline import Timeline
from ttscommon.errors import AntiphonError, BusUnavailable, Fenced
from ttscommon.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    End,
    LogRecord,
    Takeover,
    TextPiece,
    encode,
)
from ttscommon.subjects import Log
from ttscommon.tasks import stop


@dataclass(frozen=True)
class WriterTuning:
    """`window`: records that may wait for their commit, some seconds of speech. `recent`: committed
    records that a NACK still brings back without a read of the log. `offer_s`: how long readers
    may take to offer what they heard; one that is alive answers within milliseconds.
    `restore_s`: how long a log may take to be read. `look_s`: pause between two reads.
    """

    window: int = 64
    recent: int = 16
    offer_s: float = 0.15
    restore_s: float = 30.0
    look_s: float = 0.02


@dataclass(frozen=True)
class _Pending:
    record: LogRecord
    data: bytes


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
        tuning: WriterTuning = WriterTuning(),
    ) -> None:
        self.restored: list[Chunk] = []
        self.checkpoint = Checkpoint()
        self.position = 0
        self.ended = False
        self._link = link
        self._logs = logs
        self._tuning = tuning
        self._log = log
        self._request_id = request_id
        self._epoch = epoch
        self._sequence = 0
        self._committed = 0
        self._written = 0
        self._failure: AntiphonError | None = None
        self._window: deque[_Pending] = deque()
        self._recent: deque[_Pending] = deque(maxlen=tuning.recent)
        self._changed = asyncio.Condition()
        self._subscription: object | None = None
        self._committer: asyncio.Task[None] | None = None

    async def open(self, *, restore: bool) -> None:
        """Start at the log's beginning (epoch 1) or take the log over (a higher epoch).

        After a takeover `position` is where to go on, `checkpoint` an audio log's last one, and,
        with `restore`, `restored` holds everything before, but for a beginning that a full store
        dropped. Raises Fenced if a later epoch owns the log already.
        """
        if self._epoch > 1:
            await self._take_over(restore=restore)
        nack = self._log.nack(self._request_id)
        self._subscription = await self._link.subscribe(nack, self._on_nack)
        self._link.on_reconnect(self._resend_window)
        self._committer = asyncio.create_task(self._commit_loop(), name=f"commit-{nack}")
        if self._epoch > 1 and not self.ended:
            await self._adopt_heard(restore=restore)

    async def put(self, chunk: Chunk) -> None:
        """Deliver `chunk`, which must start at `position`; waits only for room in the window."""
        if chunk.start != self.position:
            raise ValueError(f"chunk starts at {chunk.start}, the log is at {self.position}")
        if self.ended:
            raise ValueError("the log has its end already")
        await self._append(chunk)
        self.position = chunk.end
        if not isinstance(chunk, TextPiece):
            tracing.first_chunk(chunk.spent[-1].engine_s if chunk.spent else 0.0)

    async def end(self, end: End) -> None:
        """Deliver the one End; a second is a mistake of the caller."""
        if self.ended:
            raise ValueError("the log has its end already")
        self.ended = True
        await self._append(end)

    async def close(self, timeout_s: float = 30.0) -> None:
        """Wait until everything is committed, then let go.

        Raises Fenced, or BusUnavailable when the broker stayed away for `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                async with self._changed:
                    await self._changed.wait_for(lambda: not self._window or self._failure)
        except TimeoutError:
            raise BusUnavailable("the log could not be committed in time") from None
        finally:
            await self.release()
        if self._failure is not None:
            raise self._failure

    async def release(self) -> None:
        """Let go at once, committed or not; safe to call twice."""
        self._link.off_reconnect(self._resend_window)
        if self._subscription is not None:
            await self._link.unsubscribe(self._subscription)
            self._subscription = None
        if self._committer is not None:
            await stop(self._committer)
            self._committer = None

    async def _append(self, record: LogRecord) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: len(self._window) < self._tuning.window or self._failure
            )
            if self._failure is not None:
                raise self._failure
            record = msgspec.structs.replace(record, epoch=self._epoch)
            pending = _Pending(record, encode(record))
            self._window.append(pending)
            self._changed.notify_all()
        await self._send(pending)

    async def _take_over(self, *, restore: bool) -> None:
        """Fence the predecessor, then read what it left."""
        while True:
            tail = await self._logs.last(self._log, self._request_id)
            if tail is not None and isinstance(tail.record, End):
                self._sequence, self.position = tail.sequence, tail.record.end
                self.ended = True  # whoever wrote it: there is nothing left to own
                break
            if tail is not None and tail.record.epoch > self._epoch:
                raise Fenced(f"epoch {tail.record.epoch} owns the log of {self._request_id}")
            self._sequence, self.position = (tail.sequence, tail.record.end) if tail else (0, 0)
            if tail and isinstance(tail.record, AudioChunk | Takeover):
                self.checkpoint = tail.record.checkpoint
            takeover = Takeover(self._request_id, self.position, self._epoch, self.checkpoint)
            try:
                data = encode(takeover)
                self._sequence = await self._commit(takeover, data, owning=False)
                await self._send(_Pending(takeover, data))  # readers stop heeding the predecessor
                break
            except Fenced:
                continue  # the predecessor got one more record in: look again
        self._committed = self.position
        if restore:
            self.restored = await self._read_restored()

    async def _read_restored(self) -> list[Chunk]:
        """Everything before `position` that the store still has.

        Direct reads may lag, so read until nothing is missing at the end.
        """
        timeline: Timeline | None = None
        seen = 0
        chunks: list[Chunk] = []
        async with asyncio.timeout(self._tuning.restore_s):
            while True:
                for stored in await self._logs.read_patiently(self._log, self._request_id, seen):
                    if timeline is None:  # a full store drops beginnings
                        timeline = Timeline(stored.record.start)
                    seen = stored.sequence
                    ready = timeline.feed_log(stored.record)
                    chunks.extend(r for r in ready if not isinstance(r, End))
                if timeline is not None and timeline.next >= self.position:
                    return chunks
                await asyncio.sleep(self._tuning.look_s)

    async def _adopt_heard(self, *, restore: bool) -> None:
        """Commit first what readers got live and the log lacks: nobody may hear two versions."""
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
                    if isinstance(ready, AudioChunk):
                        self.checkpoint = ready.checkpoint
                    if restore:
                        self.restored.append(ready)

    async def _commit_loop(self) -> None:
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: bool(self._window))
                pending = self._window[0]
                self._sequence = await self._commit(pending.record, pending.data)
                self._committed = pending.record.end
                async with self._changed:
                    self._recent.append(self._window.popleft())
                    self._changed.notify_all()
        except AntiphonError as error:
            async with self._changed:
                self._failure = error
                self._window.clear()
                self._changed.notify_all()

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
        )

    async def _send(self, pending: _Pending) -> None:
        await self._link.send_raw(
            self._log.live(self._request_id), pending.data, {"C": str(self._committed)}
        )

    async def _on_nack(self, message: Incoming) -> None:
        try:
            position = int(message.data)
        except ValueError:
            return
        for pending in [*self._recent, *self._window]:
            if pending.record.end > position or isinstance(pending.record, End):
                await self._send(pending)

    async def _resend_window(self) -> None:
        for pending in list(self._window):
            await self._send(pending)
