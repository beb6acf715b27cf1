"""The reading half of a log: live messages and log reads as one ordered, gapless iterator."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import structlog

from ttscommon.bus import offers
from ttscommon.bus.credit import CREDIT_BYTES
from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.lean import Hearer, InTurn
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore, Stored
from ttscommon.bus.timeline import Timeline
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BusUnavailable, LogGone, MalformedMessage
from ttscommon.wire.messages import Chunk, End, LogRecord, Takeover, decode_record
from ttscommon.wire.subjects import Log

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReaderTuning:
    """`queued`: records that may wait for the one who reads; `catch_up`: how many of them a reader
    that is far behind reads at once. Of audio `credit_bytes` may wait, see bus/credit.py. A
    reconnection or a gap starts a repair at once; mere silence does after `idle_first_s`, longer
    than a chunk's cadence, and doubles up to `idle_most_s`. Between two repairs of one gap lies
    `gap_retry_s`, doubled up to `gap_longest_s`. `gone_s`: how long a writer may take to send again
    what the store has dropped, `ask_s`: to answer, before the log is read.
    """

    queued: int = 1024
    catch_up: int = 64
    credit_bytes: int = CREDIT_BYTES
    idle_first_s: float = 1.5
    idle_most_s: float = 6.0
    gap_retry_s: float = 0.05
    gap_longest_s: float = 0.2
    gone_s: float = 1.0
    ask_s: float = 0.1


DEFAULT_TUNING: Final = ReaderTuning()


class LogReader:
    """Yields a request's chunks from `start` on, contiguous, each once, then exactly one End.

    A gap, a reconnection or a silence longer than the usual cadence makes it ask the writer to
    send again (NACK) and read the log. It also answers a successor of the writer that asks for
    what was heard live and never committed.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        log: Log,
        request_id: str,
        start: int = 0,
        *,
        fresh: bool = False,
        tuning: ReaderTuning = DEFAULT_TUNING,
    ) -> None:
        self.repairs = 0
        self._link = link
        self._logs = logs
        self._tuning = tuning
        self._log = log
        self._request_id = request_id
        self._timeline = Timeline(start)
        self._fresh = fresh
        self._log_sequence = 0
        self._ready: deque[Chunk | End] = deque()
        self._arrived = asyncio.Event()
        self._suspect = asyncio.Event()
        self._behind = self._lost = False
        self._questions: InTurn | None = None
        self._stopped = False
        self._more = False
        self._failure: AntiphonError | None = None
        self._gone_s: float | None = None
        self._idle_s = self._tuning.idle_first_s
        self._subscriptions: list[object] = []
        self._repairer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        link, request_id = self._link, self._request_id
        link.on_reconnect(self._suspect_loss)
        self._subscriptions = [
            await link.hear(subject, hearer) for subject, hearer in self._heard(request_id)
        ]
        if not self._fresh:
            self._behind = True  # whatever was written before we subscribed is missing
            self._suspect.set()
        self._repairer = asyncio.create_task(self._repair_loop(), name=f"repair-{request_id}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._link.off_reconnect(self._suspect_loss)
        # Both hold us in turn: such circles pile up until the collector stops the whole process.
        subscriptions, self._subscriptions = self._subscriptions, []
        repairer, self._repairer = self._repairer, None
        questions, self._questions = self._questions, None
        if questions is not None:
            questions.stop()
        # Before anything that suspends: a cancellation may find us here, and would leave them.
        for subscription in subscriptions:
            await self._link.unsubscribe(subscription)
        if repairer is not None:
            await stop(repairer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk | End:
        """Raises LogGone when what comes next was dropped from a full store."""
        while not self._ready:
            if self._timeline.ended or self._stopped:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            self._arrived.clear()
            await self._arrived.wait()
        if self._stopped:
            raise StopAsyncIteration
        return self._taken()

    def at_hand(self) -> Chunk | End | None:
        """The next record, if it is here already: for those who would wait with a time limit."""
        return self._taken() if self._ready and not self._stopped else None

    def _taken(self) -> Chunk | End:
        record = self._ready.popleft()
        self._was_read(record)
        return record

    def stop(self) -> None:
        """Deliver nothing more: the iteration ends, also one that waits."""
        self._stopped = True
        self._arrived.set()

    def _deliver(self, ready: list[Chunk | End]) -> None:
        if ready:
            self._ready.extend(ready)
            self._idle_s = self._tuning.idle_first_s
            self._arrived.set()
        if self._timeline.gap:
            self._suspect.set()

    def _heard(self, request_id: str) -> list[tuple[str, Hearer]]:
        log = self._log
        return [(log.live(request_id), self._on_live), (log.subject(request_id), self._on_commit)]

    def _on_live(self, message: Incoming) -> None:
        if message.reply:
            self._questions = self._questions or InTurn(self._on_offer)
            self._questions(message)
            return
        if (record := self._record(message)) is None:
            return
        committed = (message.headers or {}).get("C", "")
        if committed.isdigit():
            self._timeline.committed(int(committed))
        self._take_live(record)

    def _on_commit(self, message: Incoming) -> None:
        """A record on its way into the log, which may refuse it: no more certain than a live copy.

        A fence that is refused has to be heard by nobody; one that holds comes live.
        """
        record = self._record(message)
        if record is not None and not isinstance(record, Takeover):
            self._timeline.committed(record.start)  # its writer knows that the log holds so much
            self._take_live(record)

    def _record(self, message: Incoming) -> LogRecord | None:
        if self._full:
            self._more = True  # from the log, when there is room
            return None
        try:
            return decode_record(message.data)
        except MalformedMessage as error:
            log_.warning("live.malformed", request_id=self._request_id, error=error.message)
            return None

    def _take_live(self, record: LogRecord) -> None:
        self._deliver(self._timeline.feed_live(record))

    def _was_read(self, record: Chunk | End) -> None:
        """Whoever reads has it now."""
        self._read_on_if_room()

    def _read_on_if_room(self) -> None:
        if self._more and self._hungry:
            self._suspect.set()

    @property
    def _full(self) -> bool:
        """No more may come live."""
        return len(self._ready) >= self._tuning.queued

    @property
    def _supplied(self) -> bool:
        """What is missing can wait until more of what is here was read."""
        return len(self._ready) >= self._tuning.catch_up

    @property
    def _hungry(self) -> bool:
        """What is missing is wanted now."""
        return len(self._ready) <= self._tuning.catch_up // 4

    async def _on_offer(self, message: Incoming) -> None:
        try:
            position = int(message.data)
        except ValueError:
            return
        await offers.answer(self._link, message, self._timeline.heard(position))

    async def _suspect_loss(self) -> None:
        self._lost = True
        self._suspect.set()

    async def _repair_loop(self) -> None:
        pause_s = self._tuning.gap_retry_s
        while not self._timeline.ended and self._failure is None:
            try:
                async with asyncio.timeout(self._idle_s):
                    await self._suspect.wait()
            except TimeoutError:
                self._idle_s = min(self._idle_s * 2, self._tuning.idle_most_s)
                self._lost = True
            self._suspect.clear()
            if not (self._behind or self._lost or self._more or self._timeline.gap):
                continue  # what was missing has come meanwhile
            if self._supplied:
                self._more = True  # whoever reads asks for it when there is room
                continue
            before = self._timeline.next
            lost, self._behind, self._lost = self._lost, False, False
            repaired = await self._repair(lost=lost)
            self._lost = self._lost or not repaired
            if repaired and (self._more or not self._timeline.gap):
                pause_s = self._tuning.gap_retry_s
                self._read_on_if_room()
                continue
            self._judge_gap()
            await asyncio.sleep(pause_s)
            progress = self._timeline.next > before
            pause_s = self._tuning.gap_retry_s if progress else 2 * pause_s
            pause_s = min(pause_s, self._tuning.gap_longest_s)
            self._suspect.set()

    async def _repair(self, *, lost: bool) -> bool:
        """Ask the writer first, then the log: one of the two has what is missing.

        False if the broker could not be asked: just after its return its streams are not up.
        `lost`: the writer's word is not enough, for it may be another's log by now.
        """
        self.repairs += 1
        if not self._more and await self._ask_writer() and not lost:
            return True
        try:
            found = await self._missing()
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._request_id, error=reason(error))
            return False
        for stored in found:
            self._log_sequence = stored.sequence
            self._deliver(self._timeline.feed_log(stored.record))
        return True

    async def _ask_writer(self) -> bool:
        """Whether there is one that gave all that is missing."""
        position, limit_s = self._timeline.next, self._tuning.ask_s
        try:
            epoch, records = await offers.lacking(
                self._link, self._log, self._request_id, position, limit_s
            )
        except BusUnavailable:
            return False
        for record in records:
            self._take_live(record)
        return epoch > 0 and epoch >= self._timeline.epoch and not self._timeline.gap

    async def _missing(self) -> list[Stored]:
        """What the log holds beyond what is here: mostly nothing, which its last record says.

        After an outage all readers look at once, and whole logs would be much to read. A long log
        comes in pages, as fast as they are read.
        """
        if not self._more:
            tail = await self._logs.tail(self._log, self._request_id)
            if tail is None or tail.sequence <= self._log_sequence:
                return []
            if tail.record.start <= self._timeline.next:
                return [tail]
            if self._timeline.next and not self._log_sequence:
                self._log_sequence = await self._logs.behind(
                    self._log, self._request_id, self._timeline.next, tail.sequence
                )
        batch = self._tuning.catch_up
        page = await self._logs.page(self._log, self._request_id, self._log_sequence, batch)
        self._more = len(page) == batch
        return page

    def _judge_gap(self) -> None:
        """Give up on what the store has dropped and the writer does not send again."""
        if not self._timeline.gone:
            self._gone_s = None
            return
        now = time.monotonic()
        self._gone_s = now if self._gone_s is None else self._gone_s
        if now - self._gone_s >= self._tuning.gone_s:
            position = self._timeline.next
            self._failure = LogGone(f"the store has nothing at {position} of the log any more")
            self._arrived.set()
