"""The writing half of an audio log: sound goes live alone, and the log holds positions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from ttscommon.bus import offers
from ttscommon.bus.credit import Credit
from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore
from ttscommon.bus.takeover import DEFAULT_TUNING, WriterTuning
from ttscommon.bus.window import Pending, Tail
from ttscommon.bus.writer import LogWriter
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire.messages import AudioChunk, Checkpoint, Chunk, End, Position, Takeover
from ttscommon.wire.subjects import AUDIO

log_ = structlog.get_logger(__name__)


class AudioWriter(LogWriter):
    """The one writer of a request's audio; see LogWriter for the log, the fence and the End.

    After a takeover `listener` is where the reader stands, if there is one, and `begin` must come
    before `put`. `room` says how far a reader wants it to be; `put` itself does not wait for it. A
    log that has its End already can be sounded again for a reader that lacks something: then
    `remaking` is the End, all goes live and nothing is committed.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        request_id: str,
        epoch: int,
        tenant: str = "",
        tuning: WriterTuning = DEFAULT_TUNING,
    ) -> None:
        waiting = replace(tuning, window=tuning.positions, recent=0)
        super().__init__(link, logs, AUDIO, request_id, epoch, tenant, waiting)
        self.listener: Position | None = None
        self._sound = Tail(tuning.tail_bytes)
        self._begun = True
        self._over = False
        self._noted: int | None = None
        self._sought: int | None = None
        self._seek = asyncio.Event()
        self._credit = Credit(tuning.credit_bytes)
        self._last = Position(request_id, 0)

    @property
    def remaking(self) -> End | None:
        """The End that the log had when this writer came."""
        return self.found_end

    async def put(self, chunk: Chunk) -> None:
        """Deliver `chunk`, which must start at `position`.

        Waits only while too many positions wait for their commit.
        """
        if not isinstance(chunk, AudioChunk) or chunk.start != self.position or self._over:
            raise ValueError(f"{chunk.start} does not follow {self.position}")
        if self._window.failure is not None:
            raise self._window.failure
        pending = self._pending(chunk)
        self._sound.add(pending)
        self.position = chunk.end
        self._last = Position(self._request_id, chunk.end, chunk.checkpoint)
        await self._send(pending)
        tracing.first_chunk(chunk.spent[-1].engine_s if chunk.spent else 0.0)
        if self._is_worth_noting(chunk):
            self._noted = chunk.end
            note = Position(self._request_id, chunk.end, chunk.checkpoint)
            await self._window.add(self._pending(note))

    async def end(self, end: End) -> None:
        """Deliver the one End; a second is a mistake of the caller."""
        if self._over:
            raise ValueError("the log has its end already")
        self._over = self.ended = True
        pending = self._pending(end)
        self._sound.add(pending)
        await self._send(pending)
        if self.remaking is None:
            await self._window.add(pending)

    async def begin(self, listener: Position) -> Checkpoint:
        """Send from where `listener` stands on; returns what to begin decoding with."""
        if not self._begun:
            self._credit.begin(listener.start)
        self._sought = None
        self._seek.clear()
        self._begun = True
        self._sound.begin(listener.start)
        self.position = listener.start
        self._last = listener
        if listener.checkpoint.frame or not listener.start:
            return listener.checkpoint
        return await self._checkpoint_before(listener.start)

    async def room(self, position: int, timeout_s: float | None = None) -> bool:
        """Wait until a reader has room for the sample at `position`; False after `timeout_s`."""
        return await self._credit.room(position, timeout_s)

    @property
    def last(self) -> Position:
        """Where to begin again to go on behind what was sent."""
        return self._last

    async def wanted(self) -> Position | None:
        """Wait until a reader takes more than there is, and say where to begin again.

        None when nobody listens any more. What was sent is not kept meanwhile.
        """
        self._sound.begin(self.position)
        waiting = asyncio.create_task(self._credit.room(self.position))
        seeking = asyncio.create_task(self._seek.wait())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {waiting, seeking},
                    timeout=self._tuning.listener_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if seeking in done:
                    return await self.sought()
                if done:
                    return self._last
                if self._link.connected and not await self.is_heard():
                    return None
        finally:
            await stop(waiting, seeking)

    async def is_heard(self) -> bool:
        """Whether a reader answers, of two questions one."""
        return await self._ask() is not None or await self._ask() is not None

    async def sought(self) -> Position:
        """Wait until a reader asks for what is not here any more, or not yet."""
        await self._seek.wait()
        return Position(self._request_id, self._sought or 0)

    async def heard(self) -> Position:
        """Wait for a reader: one that asks, or one that answers."""
        while True:
            try:
                async with asyncio.timeout(self._tuning.ask_s):
                    return await self.sought()
            except TimeoutError:
                if (found := await self._ask()) is not None:
                    return found

    async def _find_readers(self, *, restore: bool) -> None:
        self._begun = False
        self._noted = None
        self.listener = await self._ask()

    async def _ask(self) -> Position | None:
        return await offers.where(self._link, self._log, self._request_id, self._tuning.offer_s)

    def _is_worth_noting(self, chunk: AudioChunk) -> bool:
        """The first chunk of every writer is: the log has grown. Seconds apart are those that
        follow, and what the log knows already is not written again.
        """
        if self.remaking is not None:
            return False
        if self._noted is None:
            return chunk.end > self._committed
        return chunk.end >= self._noted + self._tuning.position_s * chunk.sample_rate

    async def _checkpoint_before(self, position: int) -> Checkpoint:
        """The log's last at or before `position`; the beginning if the log cannot be read."""
        try:
            stored = await self._logs.read(self._log, self._request_id, 0)
        except Unreachable as error:
            log_.info("checkpoint.unread", request_id=self._request_id, error=reason(error))
            return Checkpoint()
        before = [
            each.record.checkpoint
            for each in stored
            if isinstance(each.record, Position | Takeover) and each.record.end <= position
        ]
        return max(before, key=lambda checkpoint: checkpoint.frame, default=Checkpoint())

    async def _send(self, pending: Pending) -> None:
        """Readers keep nothing of what they heard, so how far the log is tells them nothing."""
        await self._link.send_raw(self._live, pending.data)

    async def _on_nack(self, message: Incoming) -> None:
        if self._credit.heed(message.data):
            if message.reply:
                await self._link.reply(message.reply, b"")
            return
        try:
            position = int(message.data)
        except ValueError:
            return
        missing = not self._begun or position < self._sound.start
        if missing and self._over:
            return  # whoever asks has it made again
        if message.reply:
            await self._link.reply(message.reply, b"")
        if missing:
            self._sought = position if self._sought is None else min(position, self._sought)
            self._seek.set()
            return
        for pending in self._sound.behind(position, self._tuning.resend_bytes):
            await self._send(pending)

    async def _resend_window(self) -> None:
        """Say how far it is: readers ask for what they lack."""
        await self._send(self._pending(Position(self._request_id, self.position)))
        await super()._resend_window()
