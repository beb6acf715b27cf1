"""Codes or text that a reader missed: the writer sends it again, or the log has it."""

from __future__ import annotations

import time

import structlog

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logs import offers
from ttscommon.bus.logs.inbox import Inbox
from ttscommon.bus.logs.logstore import LogStore, StoredRecord
from ttscommon.bus.logs.repair import ReaderTuning
from ttscommon.wire.errors import BusUnavailable, LogGone, MalformedMessage
from ttscommon.wire.repairs import Nack
from ttscommon.wire.subjects import Log

log_ = structlog.get_logger(__name__)


class LogSource:
    """The writer first, then the log: one of the two has what is missing."""

    logged = True

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        log: Log,
        request_id: str,
        inbox: Inbox,
        tuning: ReaderTuning,
    ) -> None:
        self._link = link
        self._logs = logs
        self._log = log
        self._request_id = request_id
        self._inbox = inbox
        self._tuning = tuning
        self._sequence = 0
        self._gone_s: float | None = None

    def opened(self, *, fresh: bool) -> None:
        del fresh

    async def close(self) -> None:
        return

    async def answer(self, question: Incoming) -> None:
        try:
            position = Nack.decode(question.data).position
        except MalformedMessage:
            return
        await offers.answer(self._link, question, self._inbox.timeline.heard(position))

    async def repair(self, *, lost: bool) -> bool:
        """False just after the broker's return, when its streams are not up."""
        if not self._inbox.more and await self._ask_writer() and not lost:
            return True
        try:
            found = await self._missing()
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._request_id, error=reason(error))
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
        timeline, limit_s = self._inbox.timeline, self._tuning.ask_s
        try:
            epoch, records = await offers.lacking(
                self._link, self._log, self._request_id, timeline.next, limit_s
            )
        except BusUnavailable:
            return False
        for record in records:
            self._inbox.take_live(record)
        return epoch > 0 and epoch >= timeline.epoch and not timeline.gap

    async def _missing(self) -> list[StoredRecord]:
        """What the log holds beyond what is here: mostly nothing, which its last record says.

        After an outage all readers look at once, and whole logs would be much to read. A long log
        comes in pages, as fast as they are read.
        """
        if not self._inbox.more:
            position = self._inbox.timeline.next
            tail = await self._logs.tail(self._log, self._request_id)
            if tail is None or tail.sequence <= self._sequence:
                return []
            if tail.record.start <= position:
                return [tail]
            if position and not self._sequence:
                self._sequence = await self._logs.behind(
                    self._log, self._request_id, position, tail.sequence
                )
        batch = self._tuning.catch_up
        page = await self._logs.page(self._log, self._request_id, self._sequence, batch)
        self._inbox.more = len(page) == batch
        return page
