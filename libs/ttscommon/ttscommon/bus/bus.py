"""The bus of one process: its link, and the queue, logs and buckets that hang on it."""

from __future__ import annotations

import structlog

from ttscommon.bus.buckets import Buckets, Objects
from ttscommon.bus.link import Link
from ttscommon.bus.logs.audio_reader import AudioReader
from ttscommon.bus.logs.audio_writer import AudioWriter
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.reader import LogReader
from ttscommon.bus.logs.writer import LogWriter, RecordWriter
from ttscommon.bus.queue import JobQueue
from ttscommon.bus.setup import Setup
from ttscommon.bus.streams import Trimmer
from ttscommon.process.settings import BusSettings
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.messages import Cancel, SpeechRequest
from ttscommon.wire.subjects import AUDIO, Log, Stage

log_ = structlog.get_logger(__name__)


class Bus:
    """Build with `connect`; `close` when done."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.kv = Buckets(link)
        self.objects = Objects(link)
        self.queue = JobQueue(link)
        self.setup = Setup(link)
        self.trimmer = Trimmer(link)

    @classmethod
    async def connect(cls, settings: BusSettings, name: str) -> Bus:
        """Connect, waiting for the broker as long as it takes."""
        return cls(await Link.connect(settings, name))

    @property
    def worker_id(self) -> str:
        return self.link.worker_id

    @property
    def connected(self) -> bool:
        return self.link.connected

    async def submit(self, stage: Stage, request: SpeechRequest) -> None:
        """Queue a job; see JobQueue.submit."""
        await self.queue.submit(stage, request)

    def log(self, kind: Log, request_id: str) -> RequestLog:
        """A request's log, to look at it; `writer` and `reader` are for its records."""
        return RequestLog(self.link, kind, request_id)

    async def audio_writer(
        self, request_id: str, epoch: int, *, fresh: bool | None = None, tenant: str = ""
    ) -> AudioWriter:
        """Open the request's audio log, which is `tenant`'s, for writing; see AudioWriter."""
        writer = AudioWriter(self.log(AUDIO, request_id), epoch, tenant)
        await _opened(writer, restore=False, fresh=fresh)
        return writer

    def audio_reader(self, request_id: str, start: int = 0, *, fresh: bool = False) -> AudioReader:
        """Hear the request from sample `start`; see `reader` and AudioReader.

        `fresh`: no writer can have written to it yet, so nothing is asked for at once.
        """
        return AudioReader(self.log(AUDIO, request_id), self.queue, start, fresh=fresh)

    async def writer(
        self,
        log: Log,
        request_id: str,
        epoch: int,
        *,
        restore: bool = True,
        fresh: bool | None = None,
        tenant: str = "",
    ) -> LogWriter:
        """Open the request's log, which is `tenant`'s, for writing; see RecordWriter.open.

        For audio, see `audio_writer`.
        """
        writer = LogWriter(self.log(log, request_id), epoch, tenant)
        await _opened(writer, restore=restore, fresh=fresh)
        return writer

    def reader(self, log: Log, request_id: str, start: int = 0) -> LogReader:
        """Read the request's log from position `start`; use as an async context manager."""
        return LogReader(self.log(log, request_id), start)

    async def cancel(self, request_id: str, reason: str, *, ended: bool = False) -> None:
        """Tell both stages to stop; a tombstone tells a worker that takes the job later.

        They are told again once the tombstone stands: a worker that is just taking the job may have
        subscribed too late for the first word, and looked for the tombstone too early.

        ended: the request has its End; only what is made again of it is to stop.
        """
        cancel = Cancel(request_id, reason)
        await self.link.send(subjects.cancel(request_id), cancel)
        if ended:
            return
        try:
            await self.kv.put(subjects.TOMBSTONES, request_id, reason.encode())
        except BusUnavailable:
            log_.warning("cancel.no_tombstone", request_id=request_id)
        await self.link.send(subjects.cancel(request_id), cancel)

    async def try_to_store(self) -> None:
        """Write a probe that no reader takes, under this process's name; raises BusUnavailable."""
        await self.kv.put(subjects.TOMBSTONES, self.worker_id, b"")

    async def is_cancelled(self, request_id: str) -> bool:
        """Whether a tombstone stands for the request."""
        return await self.kv.get(subjects.TOMBSTONES, request_id) is not None

    async def close(self) -> None:
        """Flush what is buffered and disconnect."""
        await self.link.close()


async def _opened(writer: RecordWriter, *, restore: bool, fresh: bool | None) -> None:
    try:
        await writer.open(restore=restore, fresh=fresh)
    except BaseException:
        await writer.release()
        raise
