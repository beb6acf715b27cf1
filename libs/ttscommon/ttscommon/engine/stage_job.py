"""A job as both stages do it: its endings and failures, its slot in the engine, its waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Generic, TypeVar

import structlog

from ttscommon.bus import AudioWriter, LogWriter
from ttscommon.cluster.worker import Job
from ttscommon.engine.interface import StageEngine
from ttscommon.engine.runtime import Stopped
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import End, Outcome, SpeechRequest
from ttscommon.wire.subjects import Stage

EventT = TypeVar("EventT")


class EventRouter(Generic[EventT]):
    """Hands every stream's events to the queue that its request listens to."""

    def __init__(self) -> None:
        """To be made on the event loop that the queues belong to."""
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, asyncio.Queue[EventT]] = {}

    def __call__(self, events: Sequence[tuple[str, EventT]]) -> None:
        """A turn's events; from any thread. Raises RuntimeError when the loop is closed."""
        self._loop.call_soon_threadsafe(self._deliver, events)

    @contextmanager
    def listening(self, key: str) -> Iterator[asyncio.Queue[EventT]]:
        """The stream's events from now on; a later listener takes them over."""
        queue: asyncio.Queue[EventT] = asyncio.Queue()
        self._queues[key] = queue
        try:
            yield queue
        finally:
            if self._queues.get(key) is queue:
                del self._queues[key]

    def _deliver(self, events: Sequence[tuple[str, EventT]]) -> None:
        for key, event in events:
            if (queue := self._queues.get(key)) is not None:
                queue.put_nowait(event)


FREE_TIMEOUT_S: Final = 30.0
# What is stopped may have to let a subscription go.
_STOP_AGAIN_S: Final = 0.5
T = TypeVar("T")

log_ = structlog.get_logger(__name__)


class StageJob(Generic[EventT]):
    """One job of a stage, as far as the stages do not differ.

    remake: what the End says that the audio can be made again of.
    """

    def __init__(
        self,
        stage: Stage,
        engine: StageEngine,
        router: EventRouter[EventT],
        job: Job,
        writer: LogWriter | AudioWriter,
        remake: SpeechRequest | None = None,
    ) -> None:
        self.key = job.request_id
        self._stage = stage
        self._engine = engine
        self._router = router
        self._job = job
        self._writer = writer
        self._remake = remake

    def end(
        self, outcome: Outcome, code: str = "", message: str = "", param: str | None = None
    ) -> End:
        """An End where the log has come to."""
        position = self._writer.position
        return End(self.key, position, outcome, code, message, param, self._remake)

    def cancelled(self) -> End:
        return self.end("cancelled", "cancelled", "cancelled")

    def failure(self, error: Exception) -> End:
        """The End for what went wrong; a stopped engine is no fault of the request: raised."""
        if isinstance(error, Stopped):
            raise error  # another worker's engine can do it
        if isinstance(error, AntiphonError):
            return self.end("error", error.code, error.message, error.param)
        log_.error("stream.failed", request_id=self.key, exc_info=error)
        return self.end("error", "internal", "synthesis failed")

    @contextmanager
    def listening(self) -> Iterator[asyncio.Queue[EventT]]:
        """The stream's events; meanwhile the engine hears of its listener's playback."""
        self._job.on_playback = lambda start_s: self._engine.playback(self.key, start_s)
        try:
            with self._router.listening(self.key) as events:
                yield events
        finally:
            self._job.on_playback = None

    def tell_playback(self) -> None:
        """Have the engine know when playback began, if that is known."""
        if self._job.playback_start_s is not None:
            self._engine.playback(self.key, self._job.playback_start_s)

    async def first(self, *work: Coroutine[Any, Any, T | None]) -> T | End | None:
        """What the first of `work` brings that brings anything, or an End if the job is cancelled.

        Where several are done, the first in this order counts, and so do its errors. None once all
        are done and brought nothing. Leaves none of them behind.
        """
        tasks = [
            asyncio.create_task(one, name=f"{getattr(one, '__name__', 'work')}-{self.key}")
            for one in work
        ]
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        waiting: set[asyncio.Task[Any]] = {cancelled, *tasks}
        try:
            while waiting != {cancelled}:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if cancelled in done:
                    return self.cancelled()
                for task in tasks:
                    if task in done and (found := task.result()) is not None:
                        return found
            return None
        finally:
            await stop(cancelled, *tasks, again_s=_STOP_AGAIN_S)

    async def free(self) -> None:
        """Give the slot back, if it is still held, and wait until the engine has done so."""
        loop = asyncio.get_running_loop()
        freed = asyncio.Event()
        self._engine.cancel(self.key, lambda: loop.call_soon_threadsafe(freed.set))
        await asyncio.wait_for(freed.wait(), FREE_TIMEOUT_S)
        if self._job.cancelled.is_set():
            elapsed_s = time.monotonic() - self._job.cancelled_s
            self._engine.metrics.cancel_latency.labels(self._stage.name).observe(elapsed_s)


@asynccontextmanager
async def ending(job: Job, writer: LogWriter | AudioWriter) -> AsyncIterator[None]:
    """Within it the log gets its End. The next job need not wait until that is committed."""
    try:
        yield
        job.spoken()
        await writer.close()
    finally:
        await writer.release()
