"""The reading half of an audio log: what was lost is asked for, or made again."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import structlog

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logstore import LogStore
from ttscommon.bus.queue import JobQueue
from ttscommon.bus.reader import DEFAULT_TUNING, LogReader, ReaderTuning
from ttscommon.errors import BusUnavailable, LogGone, Overloaded
from ttscommon.messages import End, Position, encode
from ttscommon.subjects import AUDIO

log_ = structlog.get_logger(__name__)

# A writer that is alive answers within milliseconds.
_ASK_S: Final = 0.5
# Between two attempts to have the same audio made again.
_REMAKE_S: Final = 0.5


class AudioReader(LogReader):
    """As LogReader, of a log that holds no samples.

    A gap makes it ask the writer (NACK), who sends again or decodes again. If there is none any
    more and the log has its End, the rest is made again by a new vocode job, if `remakes` is set.
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
        # Nothing is read from the log, so a repair costs the same however much waits.
        tuning = replace(tuning, catch_up=tuning.queued // 2)
        super().__init__(link, logs, AUDIO, request_id, start, fresh=fresh, tuning=tuning)
        self.remakes = False
        self._queue = queue
        self._remade_s = float("-inf")

    @property
    def log_ended(self) -> bool:
        """The log is known to have its End, whatever of its audio is still to come."""
        return self._timeline.end is not None

    def remake(self) -> None:
        """From now on what is missing before the log's End may be made again."""
        self.remakes = True
        if self._timeline.gap:
            self._suspect.set()

    async def _on_offer(self, message: Incoming) -> None:
        """A writer's successor asks where to go on."""
        timeline = self._timeline
        position = Position(self._request_id, timeline.next, timeline.checkpoint)
        await self._link.reply(message.reply, encode(position))

    async def _repair(self) -> bool:
        """Ask the writer, then look whether the log has its End.

        False if the broker could not be asked.
        """
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
