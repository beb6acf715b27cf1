"""The connection to NATS: reconnects for ever, and everything else of the bus hangs on it."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from ttscommon import subjects
from ttscommon.bus.buckets import BUCKET_TTL_S, Buckets
from ttscommon.bus.logstore import STREAM_NAME_IN_USE, LogStore, Unreachable
from ttscommon.bus.reader import LogReader
from ttscommon.bus.writer import LogWriter
from ttscommon.errors import BusUnavailable, MalformedMessage, Overloaded
from ttscommon.messages import (
    MAX_MESSAGE_BYTES,
    Cancel,
    Chunk,
    End,
    LogRecord,
    Message,
    SpeechRequest,
    decode,
    decode_record,
    encode,
)
from ttscommon.settings import BusSettings
from ttscommon.subjects import Log, Stage
from ttscommon.tasks import stop

EPOCHS_BEFORE: Final = "Antiphon-Epochs-Before"
EPOCHS_PER_ATTEMPT: Final = 100
# Three brokers that lost a leader are without one for four to nine seconds.
_SUBMIT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
_QUEUE_FULL: Final = 10077

log_ = structlog.get_logger(__name__)

ReconnectHook = Callable[[], Awaitable[None]]


class Bus:
    """One process's connection. Build with `connect`; `close` when done."""

    def __init__(self, settings: BusSettings, name: str) -> None:
        self.worker_id = f"{name}-{secrets.token_hex(6)}"
        self.client = Client()
        self._settings = settings
        self._hooks: list[ReconnectHook] = []

    @classmethod
    async def connect(cls, settings: BusSettings, name: str) -> Bus:
        """Connect, waiting for the broker as long as it takes."""
        bus = cls(settings, name)
        while True:
            try:
                await bus._connect()
                return bus
            except (*Unreachable, OSError) as error:
                log_.warning("bus.connect_retry", error=str(error) or type(error).__name__)
                await asyncio.sleep(random.uniform(0.1, 0.4))

    async def _connect(self) -> None:
        settings = self._settings
        await dial(
            self.client,
            settings,
            name=self.worker_id,
            user=settings.user,
            password=settings.password,
            error_cb=_on_error,
            disconnected_cb=_on_disconnect,
            reconnected_cb=self._on_reconnect,
        )
        self.jetstream = self.client.jetstream(timeout=3)
        self.logs = LogStore(self.client, self.jetstream, settings.publish_timeout_s)
        self.kv = Buckets(self.jetstream, self.logs, settings.replicas)

    @property
    def connected(self) -> bool:
        return bool(self.client.is_connected)

    async def ensure(self) -> None:
        """Create streams and buckets that are missing; waits for JetStream to be up."""
        for config in subjects.streams(self._settings.replicas, self._settings.max_log_bytes):
            await self._patiently(partial(self._add_stream, config))
        for bucket in BUCKET_TTL_S:
            await self._patiently(partial(self.kv.bucket, bucket))

    async def ensure_consumer(self, stage: Stage, model: str) -> None:
        """Create the durable consumer that a stage's replicas share for `model`."""
        config = subjects.consumer(stage, model)
        await self._patiently(lambda: self.jetstream.add_consumer(subjects.JOBS, config))

    async def submit(self, stage: Stage, request: SpeechRequest, *, attempt: int = 0) -> None:
        """Queue a job, once for each `attempt` however often it is called.

        A later attempt is for a job that was given to a worker and is worked on by nobody; its
        epochs are higher than any of the attempts before, so it takes over what they left.

        Raises Overloaded when the queue is full, BusUnavailable when the broker stays silent.
        """
        headers = {"Nats-Msg-Id": f"{stage.queue}.{request.request_id}"}
        if attempt:
            headers["Nats-Msg-Id"] += f".{attempt}"
            headers[EPOCHS_BEFORE] = str(attempt * EPOCHS_PER_ATTEMPT)
        data = encode(request)
        deadline_s = time.monotonic() + _SUBMIT_S
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._or_reconnected(
                    self.jetstream.publish(
                        stage.job(request.model, request.request_id),
                        data,
                        timeout=self._settings.publish_timeout_s,
                        stream=subjects.JOBS,
                        headers=headers,
                    )
                )
                return
            except nats.js.errors.APIError as error:
                if error.err_code == _QUEUE_FULL:
                    raise Overloaded("the job queue is full") from error
            except Unreachable as error:
                log_.debug("submit.retry", request_id=request.request_id, error=str(error))
            if time.monotonic() > deadline_s:
                raise BusUnavailable("the broker did not take the job in time")
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _or_reconnected(self, request: Coroutine[Any, Any, object]) -> None:
        """Wait for `request`, or raise StaleConnectionError at the next reconnection.

        A broker that died will not answer, and somebody waits for a first sound.
        """
        reconnected = asyncio.Event()

        async def hook() -> None:
            reconnected.set()

        asking = asyncio.create_task(request)
        lost = asyncio.create_task(reconnected.wait())
        self.on_reconnect(hook)
        try:
            await asyncio.wait({asking, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise nats.errors.StaleConnectionError
            asking.result()
        finally:
            self.off_reconnect(hook)
            await stop(asking, lost)

    async def submitted(self, stage: Stage, request_id: str) -> tuple[SpeechRequest, int] | None:
        """The request's job and its latest attempt, until a worker has acknowledged it.

        Raises BusUnavailable.
        """
        try:
            raw = await self.jetstream.get_last_msg(subjects.JOBS, stage.job_of(request_id))
            request = decode(raw.data or b"")
        except (nats.js.errors.NotFoundError, MalformedMessage):
            return None
        except Unreachable as error:
            raise BusUnavailable("the queue could not be read") from error
        if not isinstance(request, SpeechRequest):
            return None
        return request, int((raw.headers or {}).get(EPOCHS_BEFORE, "0")) // EPOCHS_PER_ATTEMPT

    async def writer(
        self, log: Log, request_id: str, epoch: int, *, restore: bool = True
    ) -> LogWriter:
        """Open the request's log for writing; see LogWriter.open."""
        writer = LogWriter(self, log, request_id, epoch)
        try:
            await writer.open(restore=restore)
        except BaseException:
            await writer.release()
            raise
        return writer

    def reader(
        self, log: Log, request_id: str, start: int = 0, *, fresh: bool = False
    ) -> LogReader:
        """Read the request's log from position `start`; use as an async context manager.

        `fresh`: nobody can have written to it yet, so it is not read at once.
        """
        return LogReader(self, log, request_id, start, fresh=fresh)

    async def send(self, subject: str, message: Message) -> None:
        """Publish on core NATS; dropped while disconnected, like everything that is only live."""
        await self.send_raw(subject, encode(message))

    async def send_raw(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> None:
        """`send` for bytes that are encoded already."""
        if not self.connected:
            return
        try:
            await self.client.publish(subject, data, headers=headers)
        except (nats.errors.Error, OSError) as error:
            log_.debug("send.dropped", subject=subject, error=str(error))

    async def listen(self, subject: str, callback: Callable[[Message], None]) -> Any:
        """Call back with every parsed message on a core subject; returns the subscription."""

        async def on_message(message: Msg) -> None:
            try:
                parsed = decode(message.data)
            except MalformedMessage as error:
                log_.warning("listen.malformed", subject=subject, error=error.message)
                return
            callback(parsed)

        return await self.client.subscribe(subject, cb=on_message)

    async def unsubscribe(self, subscription: Any) -> None:
        """End a subscription; nothing to do when the connection is gone."""
        try:
            await subscription.unsubscribe()
        except (nats.errors.Error, OSError):
            log_.debug("unsubscribe.dropped")

    async def cancel(self, request_id: str, reason: str) -> None:
        """Tell both stages to stop; a tombstone tells whoever takes the job later."""
        await self.send(subjects.cancel(request_id), Cancel(request_id, reason))
        try:
            await self.kv.put(subjects.TOMBSTONES, request_id, reason.encode())
        except BusUnavailable:
            log_.warning("cancel.no_tombstone", request_id=request_id)

    async def is_cancelled(self, request_id: str) -> bool:
        """Whether a tombstone stands for the request."""
        return await self.kv.get(subjects.TOMBSTONES, request_id) is not None

    def on_reconnect(self, hook: ReconnectHook) -> None:
        """Call `hook` after every reconnection until `off_reconnect`."""
        self._hooks.append(hook)

    def off_reconnect(self, hook: ReconnectHook) -> None:
        if hook in self._hooks:
            self._hooks.remove(hook)

    async def reply_offer(self, request: Msg, records: Sequence[Chunk | End]) -> None:
        """Answer a successor with as many records as fit one message."""
        parts: list[bytes] = []
        for record in records:
            parts.append(encode(record))
            if sum(map(len, parts)) > MAX_MESSAGE_BYTES - 1024:
                parts.pop()
                break
        await self.send_raw(request.reply, msgspec.msgpack.encode(parts))

    @staticmethod
    def decode_offer(data: bytes) -> list[LogRecord]:
        """The records of an offer, as far as they are well-formed."""
        records: list[LogRecord] = []
        try:
            parts = msgspec.msgpack.decode(data, type=list[bytes])
            records.extend(decode_record(part) for part in parts)
        except (msgspec.MsgspecError, ValueError, MalformedMessage) as error:
            log_.warning("offer.malformed", error=str(error))
        return records

    async def close(self) -> None:
        """Flush what is buffered, within a second, and disconnect."""
        try:
            await asyncio.wait_for(self.client.flush(), 1.0)
        except Unreachable:
            log_.debug("close.unflushed")
        await self.client.close()

    async def _on_reconnect(self) -> None:
        log_.info("bus.reconnected")
        for hook in list(self._hooks):
            await hook()

    async def _add_stream(self, config: Any) -> None:
        try:
            await self.jetstream.add_stream(config)
        except nats.js.errors.BadRequestError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise
            await self.jetstream.update_stream(config)

    async def _patiently(self, action: Callable[[], Awaitable[Any]]) -> None:
        """Retry through elections and a JetStream that is still starting."""
        for attempt in range(120):
            try:
                await action()
                return
            except Unreachable as error:
                if isinstance(error, nats.js.errors.BadRequestError):
                    raise
                log_.info("bus.waiting_for_jetstream", error=str(error), attempt=attempt)
            await asyncio.sleep(random.uniform(0.1, 0.5))
        raise BusUnavailable("JetStream did not become available")


async def dial(client: Client, settings: BusSettings, **options: Any) -> None:
    """Connect `client` the way everything here does: reconnecting soon, and for ever."""
    await client.connect(
        list(settings.urls),
        connect_timeout=1,
        reconnect_time_wait=0.05,  # type: ignore[arg-type]  # seconds; fractions work
        max_reconnect_attempts=-1,
        ping_interval=5,
        max_outstanding_pings=2,
        pending_size=64 << 20,
        **options,
    )


async def _on_error(error: Exception) -> None:
    log_.debug("bus.error", error=str(error) or type(error).__name__)


async def _on_disconnect() -> None:
    log_.warning("bus.disconnected")
