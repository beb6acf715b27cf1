"""The reading half of a log: live messages and what was missed as one ordered, gapless iterator."""

from __future__ import annotations

import asyncio
import time
from typing import Self

import structlog

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.lean import InTurn
from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.inbox import Inbox, Suspicion
from ttscommon.bus.logs.logstore import RequestLog, StoredRecord
from ttscommon.bus.logs.repair import DEFAULT_TUNING, ReaderTuning, RepairLoop, RepairSource
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable, LogGone, MalformedMessage
from ttscommon.wire.messages import Chunk, End, LogRecord, Takeover, decode_record
from ttscommon.wire.repairs import Nack, Offer, Resend, committed

log_ = structlog.get_logger(__name__)


class RecordReader(RepairSource):
    """Yields a request's records into an inbox and out of it, contiguous, each once, then one End.

    Use as an async context manager. A gap, a reconnection or a silence longer than the usual
    cadence makes it ask its source. It also answers a successor of the writer.
    """

    def __init__(
        self,
        log: RequestLog,
        inbox: Inbox,
        suspicion: Suspicion,
        tuning: ReaderTuning,
    ) -> None:
        self._log = log
        self._inbox = inbox
        self._suspicion = suspicion
        self._tuning = tuning
        self._questions: InTurn | None = None
        self._subscriptions: list[object] = []
        self._repairer: asyncio.Task[None] | None = None

    @property
    def position(self) -> int:
        """Everything before it has come, read or not."""
        return self._inbox.timeline.next

    async def __aenter__(self) -> Self:
        log, link = self._log, self._log.link
        link.on_reconnect(self._suspicion.on_reconnect)
        self._subscriptions = [await link.subscribe_inline(log.live, self._on_live)]
        if self.logged:
            self._subscriptions += [await link.subscribe_inline(log.subject, self._on_commit)]
        loop = RepairLoop(self._inbox, self._suspicion, self, self._tuning)
        self._repairer = asyncio.create_task(loop.run(), name=f"repair-{log.request_id}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._log.link.off_reconnect(self._suspicion.on_reconnect)
        # Both hold us in turn: such circles pile up until the collector stops the whole process.
        subscriptions, self._subscriptions = self._subscriptions, []
        repairer, self._repairer = self._repairer, None
        questions, self._questions = self._questions, None
        if questions is not None:
            questions.stop()
        # Before anything that suspends: a cancellation may find us here, and would leave them.
        for subscription in subscriptions:
            await self._log.link.unsubscribe(subscription)
        if repairer is not None:
            await stop(repairer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk | End:
        """Raises LogGone when what comes next was dropped from a full store."""
        return await self._inbox.next()

    def at_hand(self) -> Chunk | End | None:
        """The next record, if it is here already: for those who would wait with a time limit."""
        return self._inbox.at_hand()

    def stop(self) -> None:
        """Deliver nothing more: the iteration ends, also one that waits."""
        self._inbox.stop()

    def _on_live(self, message: Incoming) -> None:
        if message.reply:
            self._questions = self._questions or InTurn(self.answer)
            self._questions(message)
            return
        if (record := self._record(message)) is None:
            return
        if (position := committed(message.headers)) is not None:
            self._inbox.timeline.committed(position)
        self._inbox.take_live(record)

    def _on_commit(self, message: Incoming) -> None:
        """A record on its way into the log, which may refuse it: no more certain than a live copy.

        A fence that is refused concerns no reader; one that holds comes live.
        """
        record = self._record(message)
        if record is not None and not isinstance(record, Takeover):
            # Its writer knows that the log holds so much.
            self._inbox.timeline.committed(record.start)
            self._inbox.take_live(record)

    def _record(self, message: Incoming) -> LogRecord | None:
        """None for what is malformed, and for what there is no room for."""
        try:
            record = decode_record(message.data)
        except MalformedMessage as error:
            log_.warning("live.malformed", request_id=self._log.request_id, error=error.message)
            return None
        return record if self._inbox.takes(record) else None


class LogReader(RecordReader):
    """Reads codes or text. What it missed the writer has, or else the log."""

    logged = True

    def __init__(self, log: RequestLog, start: int) -> None:
        tuning = DEFAULT_TUNING
        suspicion = Suspicion(tuning.idle_first_s, tuning.idle_most_s, behind=True)
        inbox = Inbox(Timeline(start), suspicion, tuning.queued, tuning.catch_up)
        super().__init__(log, inbox, suspicion, tuning)
        self._sequence = 0
        self._gone_s: float | None = None

    async def answer(self, question: Incoming) -> None:
        """With as many records as fit one message."""
        try:
            position = Nack.decode(question.data).position
        except MalformedMessage:
            return
        heard = Offer.of(self._inbox.timeline.heard(position))
        await self._log.link.reply(question.reply, heard.encode())

    async def repair(self, *, lost: bool) -> bool:
        """False just after the broker's return, when its streams are not up."""
        if not self._inbox.more and await self._ask_writer() and not lost:
            return True
        try:
            found = await self._missing()
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._log.request_id, error=reason(error))
            return False
        for stored in found:
            self._sequence = stored.sequence
            self._inbox.take_logged(stored.record)
        return True

    def judge(self) -> None:
        """Give up on what the store has dropped and the writer does not send again."""
        if not self._inbox.timeline.gone:
            self._gone_s = None
            return
        now = time.monotonic()
        self._gone_s = now if self._gone_s is None else self._gone_s
        if now - self._gone_s >= self._tuning.gone_s:
            position = self._inbox.timeline.next
            self._inbox.fail(LogGone(f"the store has nothing at {position} of the log any more"))

    async def _ask_writer(self) -> bool:
        """Whether there is one that gave all that is missing."""
        timeline, wanted = self._inbox.timeline, Nack(self._inbox.timeline.next)
        try:
            told = await self._log.link.request(self._log.nack, wanted.encode(), self._tuning.ask_s)
            resent = Resend.decode(told)
            for record in resent.parsed():
                self._inbox.take_live(record)
        except BusUnavailable:
            return False
        except MalformedMessage as error:
            log_.warning("resend.malformed", error=error.message)
            return False
        whole = resent.epoch > 0 and resent.epoch >= timeline.epoch
        return whole and not timeline.gap

    async def _missing(self) -> list[StoredRecord]:
        """What the log holds beyond what is here: mostly nothing, which its last record says.

        After an outage all readers look at once, and whole logs would be much to read. A long log
        comes in pages, as fast as they are read.
        """
        if not self._inbox.more:
            position = self._inbox.timeline.next
            tail = await self._log.tail()
            if tail is None or tail.sequence <= self._sequence:
                return []
            if tail.record.start <= position:
                return [tail]
            if position and not self._sequence:
                self._sequence = await self._log.behind(position, tail.sequence)
        batch = self._tuning.catch_up
        page = await self._log.page(self._sequence, batch)
        self._inbox.more = len(page) == batch
        return page
