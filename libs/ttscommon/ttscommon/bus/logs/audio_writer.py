"""The writing half of an audio log: sound goes live alone, and the log holds positions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.commits import Commits, Pending, Tail
from ttscommon.bus.logs.credit import Credit
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.takeover import DEFAULT_TUNING, WriterTuning
from ttscommon.bus.logs.writer import RecordWriter
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable, MalformedMessage
from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    End,
    Position,
    Takeover,
    decode_record,
)
from ttscommon.wire.repairs import HEEDED, WHERE, CreditGrant, reader_says

log_ = structlog.get_logger(__name__)


class AudioWriter(RecordWriter):
    """The one writer of a request's audio, whose log holds positions.

    `last`: where to begin again to go on behind what was sent. After a takeover `listener` is where
    the reader stands, if there is one, and `begin` must come before `put`. `room` says how far a
    reader wants it to be; `put` itself does not wait for it. A log that has its End already can be
    sounded again for a reader that lacks something: then `remaking` is the End, all goes live and
    nothing is committed.
    """

    def __init__(
        self,
        log: RequestLog,
        epoch: int,
        tenant: str = "",
        tuning: WriterTuning = DEFAULT_TUNING,
    ) -> None:
        waiting = replace(tuning, window=tuning.positions, recent=0)
        super().__init__(log, Commits(log, epoch, tenant, waiting))
        self.listener: Position | None = None
        self.last = Position(log.request_id, 0)
        self._tuning = tuning
        self._noted: int | None = None
        # The End was sent; and it is known from where on readers are sent anything.
        self._over, self._begun = False, True
        self._credit = Credit(tuning.credit_bytes)
        self._sent = Tail(tuning.tail_bytes)
        self._sought: int | None = None
        self._seek = asyncio.Event()

    async def _ask_readers(self, *, restore: bool) -> None:
        del restore
        self._begun = False
        self.listener = await self._ask()

    @property
    def remaking(self) -> End | None:
        """The End that the log had when this writer came."""
        return self._found_end

    async def put(self, chunk: Chunk) -> None:
        """Deliver `chunk`, which must start at `position`.

        Waits only while too many positions wait for their commit.
        """
        if not isinstance(chunk, AudioChunk) or chunk.start != self.position or self._over:
            raise ValueError(f"{chunk.start} does not follow {self.position}")
        if self._commits.window.failure is not None:
            raise self._commits.window.failure
        self.position = chunk.end
        self.last = Position(self._log.request_id, chunk.end, chunk.checkpoint)
        await self._deliver(self._commits.pending(chunk))
        tracing.first_chunk(chunk.spent[-1].engine_s if chunk.spent else 0.0)
        if self._is_worth_noting(chunk):
            self._noted = chunk.end
            await self._commits.window.add(self._commits.pending(self.last))

    async def end(self, end: End) -> None:
        """Deliver the one End; a second is a mistake of the caller."""
        if self._over:
            raise ValueError("the log has its end already")
        self._over = self.ended = True
        pending = self._commits.pending(end)
        await self._deliver(pending)
        if self.remaking is None:
            await self._commits.window.add(pending)

    async def release(self) -> None:
        await super().release()
        # Whatever still refers to the writer keeps no sound, until a collection finds it.
        self._forget()

    async def begin(self, listener: Position) -> Checkpoint:
        """Send from where `listener` stands on; returns what to begin decoding with."""
        start, self.last = listener.start, listener
        if not self._begun:
            self._credit.begin(start)
        self._sought, self._begun = None, True
        self._seek.clear()
        self._sent.begin(start)
        self.position = start
        if listener.checkpoint.frame or not start:
            return listener.checkpoint
        return await self._checkpoint_before(start)

    async def room(self, position: int, timeout_s: float | None = None) -> bool:
        """Wait until a reader has room for the sample at `position`; False after `timeout_s`."""
        return await self._credit.room(position, timeout_s)

    async def wanted(self) -> Position | None:
        """Wait until a reader takes more than there is, and say where to begin again.

        None when there is no listener any more. What was sent is not kept meanwhile.
        """
        self._forget()
        waiting = asyncio.create_task(self._credit.room(self.position))
        seeking = asyncio.create_task(self.sought())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {waiting, seeking},
                    timeout=self._tuning.listener_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if seeking in done:
                    return seeking.result()
                if done:
                    return self.last
                if self._log.link.connected and not await self.is_heard():
                    return None
        finally:
            await stop(waiting, seeking)

    async def is_heard(self) -> bool:
        """Whether a reader answers, of two questions one."""
        return await self._ask() is not None or await self._ask() is not None

    async def sought(self) -> Position:
        """Wait until a reader asks for what is not here any more, or not yet."""
        await self._seek.wait()
        return Position(self._log.request_id, self._sought or 0)

    async def heard(self) -> Position:
        """Wait for a reader: one that asks, or one that answers."""
        while True:
            try:
                async with asyncio.timeout(self._tuning.ask_s):
                    return await self.sought()
            except TimeoutError:
                if (found := await self._ask()) is not None:
                    return found

    async def _ask(self) -> Position | None:
        """Where the reader stands; None without an answer."""
        try:
            told = await self._log.link.request(self._log.live, WHERE, self._tuning.offer_s)
            record = decode_record(told)
        except BusUnavailable:
            return None
        except MalformedMessage as error:
            log_.warning("offer.malformed", error=error.message)
            return None
        return record if isinstance(record, Position) else None

    def _is_worth_noting(self, chunk: AudioChunk) -> bool:
        """The first chunk of every writer is: the log has grown. Seconds apart are those that
        follow, and what the log knows already is not written again.
        """
        if self.remaking is not None:
            return False
        if self._noted is None:
            return chunk.end > self._commits.position
        return chunk.end >= self._noted + self._tuning.position_s * chunk.sample_rate

    async def _checkpoint_before(self, position: int) -> Checkpoint:
        """The log's last at or before `position`; the beginning if the log cannot be read."""
        try:
            stored = await self._log.read(0)
        except Unreachable as error:
            log_.info("checkpoint.unread", request_id=self._log.request_id, error=reason(error))
            return Checkpoint()
        before = [
            each.record.checkpoint
            for each in stored
            if isinstance(each.record, Position | Takeover) and each.record.end <= position
        ]
        return max(before, key=lambda checkpoint: checkpoint.frame, default=Checkpoint())

    async def _deliver(self, pending: Pending) -> None:
        """Send it, and keep it for a reader that lacks it."""
        self._sent.add(pending)
        await self._send(pending)

    def _forget(self) -> None:
        """Keep nothing of what was sent."""
        self._sent.begin(self.position)

    async def _send(self, pending: Pending) -> None:
        """Readers keep nothing of what they heard, so how far the log is tells them nothing."""
        await self._log.link.send_raw(self._log.live, pending.data)

    async def _resend(self) -> None:
        """Say how far it is: readers ask for what they lack."""
        await self._send(self._commits.pending(Position(self._log.request_id, self.position)))
        await super()._resend()

    async def _on_nack(self, message: Incoming) -> None:
        try:
            said = reader_says(message.data)
        except MalformedMessage:
            return
        if isinstance(said, CreditGrant):
            self._credit.heed(said)
            await self._heeded(message)
        else:
            await self._supply(said.position, message)

    async def _supply(self, position: int, message: Incoming) -> None:
        """Send what comes at `position`, or have it made first."""
        missing = not self._begun or position < self._sent.start
        if missing and self._over:
            return  # the reader has it made again
        await self._heeded(message)
        if missing:
            self._sought = position if self._sought is None else min(position, self._sought)
            self._seek.set()
            return
        for pending in self._sent.behind(position, self._tuning.resend_bytes):
            await self._send(pending)

    async def _heeded(self, message: Incoming) -> None:
        if message.reply:
            await self._log.link.reply(message.reply, HEEDED)
