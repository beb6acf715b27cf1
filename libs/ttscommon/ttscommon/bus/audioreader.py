"""The reading half of an audio log: what was lost is asked for, or made again."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

import structlog

from ttscommon.bus.credit import BYTES_PER_SAMPLE, Grants
from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.lean import Hearer
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore
from ttscommon.bus.queue import JobQueue
from ttscommon.bus.reader import DEFAULT_TUNING, LogReader, ReaderTuning
from ttscommon.bus.timeline import Timeline
from ttscommon.wire.errors import BusUnavailable, LogGone, Overloaded
from ttscommon.wire.messages import AudioChunk, Chunk, End, LogRecord, Position, encode
from ttscommon.wire.subjects import AUDIO

log_ = structlog.get_logger(__name__)

# A writer that is alive answers within milliseconds.
_ASK_S: Final = 0.5
# Between two attempts to have the same audio made again.
_REMAKE_S: Final = 0.5


class AudioReader(LogReader):
    """As LogReader, of a log that holds no samples.

    A gap makes it ask the writer (NACK), who sends again or decodes again. If there is none any
    more and the log has its End, the rest is made again by a new vocode job, if `remakes` is set.

    It holds as many bytes as it grants the writer, and some that were on their way: what does not
    fit is dropped, and asked for when there is room.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        queue: JobQueue,
        request_id: str,
        start: int = 0,
        *,
        fresh: bool = False,
        tuning: ReaderTuning = DEFAULT_TUNING,
    ) -> None:
        super().__init__(link, logs, AUDIO, request_id, start, fresh=fresh, tuning=tuning)
        self._timeline = Timeline(start, keeps=False)
        self._grants = Grants(link, AUDIO.nack(request_id), start, tuning.credit_bytes)
        self.remakes = False
        self._queue = queue
        self._remade_s = float("-inf")

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if not self._fresh:
            self._grants.repeat()  # another reader may have granted more, or less
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(kind, error, traceback)
        finally:
            await self._grants.close()

    @property
    def held_bytes(self) -> int:
        """Of sound that waits for whoever reads."""
        return BYTES_PER_SAMPLE * self._in_hand

    @property
    def log_ended(self) -> bool:
        """The log is known to have its End, whatever of its audio is still to come."""
        return self._timeline.end is not None

    def remake(self) -> None:
        """From now on what is missing before the log's End may be made again."""
        self.remakes = True
        if self._timeline.gap:
            self._suspect.set()

    def _heard(self, request_id: str) -> list[tuple[str, Hearer]]:
        return [(AUDIO.live(request_id), self._on_live)]  # the log has no samples

    async def _on_offer(self, message: Incoming) -> None:
        """A writer's successor asks where to go on."""
        timeline = self._timeline
        position = Position(self._request_id, timeline.next, timeline.checkpoint)
        await self._link.reply(message.reply, encode(position))
        self._grants.repeat()

    def _take_live(self, record: LogRecord) -> None:
        if isinstance(record, AudioChunk) and record.start >= self._grants.limit + self._margin:
            self._more = True
            return
        super()._take_live(record)

    def _was_read(self, record: Chunk | End) -> None:
        self._grants.advance(record.end)
        super()._was_read(record)

    @property
    def _in_hand(self) -> int:
        """Samples that are here and were not read."""
        return self._timeline.next - self._grants.read

    @property
    def _margin(self) -> int:
        """A writer looks at its credit before it decodes the codes of a chunk, some seconds."""
        return self._grants.samples // 4

    @property
    def _full(self) -> bool:
        return False  # what a record holds decides

    @property
    def _supplied(self) -> bool:
        return self._in_hand >= self._grants.samples // 2

    @property
    def _hungry(self) -> bool:
        return self._in_hand <= self._grants.samples // 4

    async def _repair(self, *, lost: bool) -> bool:
        """Ask the writer, then look whether the log has its End.

        False if the broker could not be asked.
        """
        del lost
        if not self._link.connected:
            return False  # nothing is worth waiting for but the reconnection
        self.repairs += 1
        self._more = False
        try:
            answered = await self._ask_writer()
            tail = await self._logs.tail(AUDIO, self._request_id)
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._request_id, error=reason(error))
            return False
        if tail is not None:
            self._deliver(self._timeline.feed_log(tail.record))
        end = self._timeline.end
        if end is not None and self._timeline.gap and not answered and self.remakes:
            await self._have_it_remade(end)
        return True

    async def _ask_writer(self) -> bool:
        """Whether there is one that will send what comes next."""
        self._grants.repeat()
        nack = AUDIO.nack(self._request_id)
        try:
            await self._link.request(nack, str(self._timeline.next).encode(), _ASK_S)
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
                log_.info("audio.remade", request_id=self._request_id, position=self._timeline.next)
        except (LogGone, Overloaded) as error:
            self._failure = error
            self._arrived.set()
        except BusUnavailable as error:
            log_.debug("remake.unqueued", request_id=self._request_id, error=error.message)

    def _judge_gap(self) -> None:
        """What the log has passed over is made again."""
