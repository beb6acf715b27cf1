"""The reading half of a log: live messages and log reads as one ordered, gapless iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import structlog
from nats.aio.msg import Msg

from ttscommon.bus.logstore import Stored, Unreachable
from ttscommon.bus.timeline import Timeline
from ttscommon.errors import MalformedMessage
from ttscommon.messages import Chunk, End, decode_record
from ttscommon.subjects import Log
from ttscommon.tasks import stop

if TYPE_CHECKING:
    from ttscommon.bus.connection import Bus

MAX_QUEUED: Final = 1024
# A reconnection or a gap starts a repair at once; mere silence is longer than a chunk's cadence.
_IDLE_FIRST_S: Final = 1.5
_IDLE_MOST_S: Final = 6.0
_GAP_RETRY_S: Final = 0.05

log_ = structlog.get_logger(__name__)


class LogReader:
    """Yields a request's chunks from `start` on, contiguous, each once, then exactly one End.

    A gap, a reconnection or a silence longer than the usual cadence makes it ask the writer to
    send again (NACK) and read the log. It also answers a successor of the writer that asks for
    what was heard live and never committed.
    """

    def __init__(
        self, bus: Bus, log: Log, request_id: str, start: int = 0, *, fresh: bool = False
    ) -> None:
        self.repairs = 0
        self._bus = bus
        self._log = log
        self._request_id = request_id
        self._timeline = Timeline(start)
        self._fresh = fresh
        self._log_sequence = 0
        self._ready: deque[Chunk | End] = deque()
        self._arrived = asyncio.Event()
        self._suspect = asyncio.Event()
        self._stopped = False
        self._idle_s = _IDLE_FIRST_S
        self._subscriptions: list[object] = []
        self._repairer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        client, request_id = self._bus.client, self._request_id
        self._bus.on_reconnect(self._suspect_loss)
        self._subscriptions = [
            await client.subscribe(self._log.live(request_id), cb=self._on_live),
            await client.subscribe(self._log.offer(request_id), cb=self._on_offer),
        ]
        if not self._fresh:
            self._suspect.set()  # whatever was written before we subscribed is only in the log
        self._repairer = asyncio.create_task(self._repair_loop(), name=f"repair-{request_id}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bus.off_reconnect(self._suspect_loss)
        # Both hold us in turn: such circles pile up until the collector stops the whole process.
        subscriptions, self._subscriptions = self._subscriptions, []
        repairer, self._repairer = self._repairer, None
        # Before anything that suspends: a cancellation may find us here, and would leave them.
        for subscription in subscriptions:
            await self._bus.unsubscribe(subscription)
        if repairer is not None:
            await stop(repairer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk | End:
        if self._stopped:
            raise StopAsyncIteration
        while not self._ready:
            if self._timeline.ended or self._stopped:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        if len(self._ready) == MAX_QUEUED // 2:
            self._suspect.set()  # live copies may have been dropped while the queue was full
        return self._ready.popleft()

    def stop(self) -> None:
        """Deliver nothing more: the iteration ends, also one that waits."""
        self._stopped = True
        self._arrived.set()

    def _deliver(self, ready: list[Chunk | End]) -> None:
        if ready:
            self._ready.extend(ready)
            self._idle_s = _IDLE_FIRST_S
            self._arrived.set()
        if self._timeline.gap:
            self._suspect.set()

    async def _on_live(self, message: Msg) -> None:
        if len(self._ready) >= MAX_QUEUED:
            return
        try:
            record = decode_record(message.data)
        except MalformedMessage as error:
            log_.warning("live.malformed", request_id=self._request_id, error=error.message)
            return
        committed = (message.headers or {}).get("C", "")
        if committed.isdigit():
            self._timeline.committed(int(committed))
        self._deliver(self._timeline.feed_live(record))

    async def _on_offer(self, message: Msg) -> None:
        try:
            position = int(message.data)
        except ValueError:
            return
        await self._bus.reply_offer(message, self._timeline.uncommitted(position))

    async def _suspect_loss(self) -> None:
        self._suspect.set()

    async def _repair_loop(self) -> None:
        while not self._timeline.ended:
            try:
                async with asyncio.timeout(self._idle_s):
                    await self._suspect.wait()
            except TimeoutError:
                self._idle_s = min(self._idle_s * 2, _IDLE_MOST_S)
            self._suspect.clear()
            if not await self._repair() or self._timeline.gap:
                await asyncio.sleep(_GAP_RETRY_S)
                self._suspect.set()

    async def _repair(self) -> bool:
        """Ask the writer first, then the log: one of the two has what is missing.

        False if the broker could not be asked: just after its return its streams are not up.
        """
        self.repairs += 1
        nack = self._log.nack(self._request_id)
        await self._bus.send_raw(nack, str(self._timeline.next).encode())
        try:
            found = await self._missing()
        except Unreachable as error:
            log_.debug("reader.repair_failed", request_id=self._request_id, error=str(error))
            return False
        for stored in found:
            if len(self._ready) >= MAX_QUEUED:
                break
            self._log_sequence = stored.sequence
            self._deliver(self._timeline.feed_log(stored.record))
        return True

    async def _missing(self) -> list[Stored]:
        """What the log holds beyond what is here: mostly nothing, which its last record says.

        After an outage everybody looks at once, and whole logs would be much to read.
        """
        tail = await self._bus.logs.tail(self._log, self._request_id)
        if tail is None or tail.sequence <= self._log_sequence:
            return []
        if tail.record.start <= self._timeline.next:
            return [tail]
        return await self._bus.logs.read(self._log, self._request_id, self._log_sequence)
