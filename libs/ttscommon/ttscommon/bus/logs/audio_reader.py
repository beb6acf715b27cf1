"""The reading half of an audio log, which holds no samples."""

from __future__ import annotations

import time
from typing import Final, Self

import structlog

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.credit import Grants
from ttscommon.bus.logs.inbox import Inbox, Suspicion
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.reader import RecordReader
from ttscommon.bus.logs.repair import DEFAULT_TUNING, ReaderTuning
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.bus.queue import JobQueue
from ttscommon.wire.errors import BusUnavailable, LogGone, Overloaded
from ttscommon.wire.messages import AudioChunk, Chunk, End, LogRecord, Position, encode
from ttscommon.wire.repairs import Nack

log_ = structlog.get_logger(__name__)

# A writer that is alive answers within milliseconds.
_ASK_S: Final = 0.5
# Between two attempts to have the same audio made again.
_REMAKE_S: Final = 0.5


class AudioReader(RecordReader):
    """Reads audio. What it missed the writer sends or decodes again; if there is none and the log
    has its End, a new job makes it, after `remake`.

    It holds as many bytes as it grants the writer, and some that were on their way: what does not
    fit is dropped, and asked for when there is room.
    """

    logged = False

    def __init__(
        self,
        log: RequestLog,
        queue: JobQueue,
        start: int = 0,
        *,
        fresh: bool = False,
        tuning: ReaderTuning = DEFAULT_TUNING,
    ) -> None:
        self._grants = Grants(log.link, log.nack, start, tuning.credit_bytes)
        suspicion = Suspicion(tuning.idle_first_s, tuning.idle_most_s, behind=not fresh)
        self._queue = queue
        self._remakes = False
        self._remade_s = float("-inf")
        inbox = AudioInbox(Timeline(start, keeps=False), suspicion, self._grants)
        super().__init__(log, inbox, suspicion, tuning)

    async def __aenter__(self) -> Self:
        behind = self._suspicion.behind
        await super().__aenter__()
        if behind:
            self._grants.repeat()  # another reader may have granted more, or less
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            await self._grants.close()

    @property
    def log_ended(self) -> bool:
        """The log is known to have its End, whatever of its audio is still to come."""
        return self._inbox.timeline.end is not None

    def remake(self) -> None:
        """From now on what is missing before the log's End may be made again."""
        self._remakes = True
        if self._inbox.timeline.gap:
            self._suspicion.arouse()

    async def answer(self, question: Incoming) -> None:
        timeline = self._inbox.timeline
        position = Position(self._log.request_id, timeline.next, timeline.checkpoint)
        await self._log.link.reply(question.reply, encode(position))
        self._grants.repeat()

    async def repair(self, *, lost: bool) -> bool:
        """Ask the writer, then look whether the log has its End."""
        del lost
        if not self._log.link.connected:
            return False  # nothing is worth waiting for but the reconnection
        self._inbox.more = False
        try:
            answered = await self._ask_writer()
            tail = await self._log.tail()
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._log.request_id, error=reason(error))
            return False
        if tail is not None:
            self._inbox.take_logged(tail.record)
        timeline = self._inbox.timeline
        if timeline.end is not None and timeline.gap and not answered and self._remakes:
            await self._have_it_remade(timeline.end)
        return True

    def judge(self) -> None:
        """What the log has passed over is made again."""

    async def _ask_writer(self) -> bool:
        """Whether there is one that will send what comes next."""
        self._grants.repeat()
        nack = Nack(self._inbox.timeline.next).encode()
        try:
            await self._log.link.request(self._log.nack, nack, _ASK_S)
        except BusUnavailable:
            return False
        return True

    async def _have_it_remade(self, end: End) -> None:
        now = time.monotonic()
        if now - self._remade_s < _REMAKE_S:
            return
        self._remade_s = now
        try:
            if end.request is None:
                raise LogGone("the audio of this request cannot be made again")
            if await self._queue.remake(end.request):
                position = self._inbox.timeline.next
                log_.info("audio.remade", request_id=self._log.request_id, position=position)
        except (LogGone, Overloaded) as error:
            self._inbox.fail(error)
        except BusUnavailable as error:
            log_.debug("remake.unqueued", request_id=self._log.request_id, error=error.message)


class AudioInbox(Inbox):
    """Holds as many bytes as the writer was granted, and some that were on their way."""

    def __init__(self, timeline: Timeline, suspicion: Suspicion, grants: Grants) -> None:
        super().__init__(timeline, suspicion)
        self._grants = grants

    @property
    def supplied(self) -> bool:
        return self._in_hand >= self._grants.samples // 2

    @property
    def hungry(self) -> bool:
        return self._in_hand <= self._grants.samples // 4

    def _has_room(self, record: LogRecord) -> bool:
        """A writer looks at its credit before it decodes the codes of a chunk, some seconds."""
        margin = self._grants.samples // 4
        return not isinstance(record, AudioChunk) or record.start < self._grants.limit + margin

    def _taken(self) -> Chunk | End:
        self._grants.advance(self._ready[0].end)
        return super()._taken()

    @property
    def _in_hand(self) -> int:
        return self.timeline.next - self._grants.read
