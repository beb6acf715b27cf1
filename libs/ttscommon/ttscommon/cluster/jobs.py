"""A claimed job: its request, what is told of it meanwhile, and its holder's progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext

from ttscommon.bus import Bus, Delivery
from ttscommon.bus.faults import Unreachable
from ttscommon.cluster.leases import HeldLease
from ttscommon.process.tasks import stop
from ttscommon.wire.messages import Cancel, Listening, Message, Playback, SpeechRequest, Takeover
from ttscommon.wire.subjects import Log

T = TypeVar("T")

# How long a job waits until it is known that the engine has done all that it could for it.
REST_S: Final = 0.25


class Lendable(Protocol):
    """A worker's slot that other jobs may have early, or meanwhile."""

    parked: bool

    @property
    def parkable(self) -> bool: ...
    def spoken(self) -> None: ...
    def park(self) -> bool: ...
    async def unpark(self) -> None: ...


@dataclass(eq=False)
class Job:
    """A claimed request, and the epoch with which this worker writes its log."""

    request: SpeechRequest
    epoch: int
    message: Delivery
    claimed_s: float = field(default_factory=time.monotonic)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled_s: float = 0.0
    listened_s: float = field(default_factory=time.monotonic)
    playback_start_s: float | None = None
    task: asyncio.Task[None] | None = None
    superseded: bool = False
    slot: Lendable | None = None
    held: HeldLease | None = None
    on_playback: Callable[[float], None] | None = None
    on_rest: Callable[[bool], Awaitable[None]] | None = None
    span: SpanContext = INVALID_SPAN_CONTEXT

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def lease(self) -> HeldLease:
        """What says that this worker has the job; every job of a worker has one."""
        assert self.held is not None
        return self.held

    def is_unheard(self, now_s: float) -> bool:
        """Whether its listener, who cannot come back, has been gone for too long."""
        return 0.0 < self.request.listener_timeout_s < now_s - self.listened_s

    def spoken(self) -> None:
        """To be called when the End is written: the next job need not wait for its commit."""
        if self.slot is not None:
            self.slot.spoken()

    @property
    def parked(self) -> bool:
        """It waits without a slot."""
        return self.slot is not None and self.slot.parked

    @property
    def parkable(self) -> bool:
        """Whether `park` would succeed now."""
        return self.slot is not None and self.slot.parkable

    def park(self) -> bool:
        """Let other jobs have the slot until `unpark`; False if this one has to keep it."""
        return self.slot is not None and self.slot.park()

    async def unpark(self) -> None:
        """Wait for a slot, before all jobs that are still in the queue."""
        if self.slot is not None:
            await self.slot.unpark()

    async def rest(self, resting: bool) -> None:
        """Say that nothing is computed for it, or will be again: a death meanwhile is not its own.

        To be awaited before it is computed for again.
        """
        if self.on_rest is not None:
            await self.on_rest(resting)

    async def resting(self, wait: Awaitable[T]) -> T:
        """What `wait` brings. After `REST_S` all that was asked of the engine is computed, and the
        job rests.
        """
        if self.on_rest is None:
            return await wait
        waiting = asyncio.ensure_future(wait)
        try:
            if not (await asyncio.wait({waiting}, timeout=REST_S))[0]:
                await self.rest(True)
            found = await waiting
        finally:
            await stop(waiting)
        await self.rest(False)
        return found

    def control(self, message: Message) -> None:
        """Take a Cancel, or word of the listener."""
        if isinstance(message, Cancel):
            if not self.cancelled.is_set():  # it may be said twice
                self.cancelled_s = time.monotonic()
            self.cancelled.set()
        elif isinstance(message, Listening):
            self.listened_s = time.monotonic()
        elif isinstance(message, Playback):
            self.listened_s = time.monotonic()
            self.playback_start_s = time.monotonic() - message.position_s
            if self.on_playback is not None:
                self.on_playback(self.playback_start_s)


def earliest_playback_s(request: SpeechRequest) -> float:
    """The earliest moment, by this process's monotonic clock, at which playback can have begun.

    What a successor goes by until a Playback tells it more: jobs taken over that seem to have no
    slack crowd out the streams that were there before, and are all served at the same time.
    """
    return time.monotonic() - max(0.0, time.time() - request.created_unix_s)


async def grew(bus: Bus, log: Log, request_id: str, epoch: int) -> bool | None:
    """Whether the log grew since `epoch` took it over; None if no replica of it answers.

    By a direct read, which may lag by a moment.
    """
    try:
        tail = await bus.log(log, request_id).tail()
    except Unreachable:
        return None
    if tail is None or tail.record.epoch < epoch:
        return False
    return tail.record.epoch > epoch or not isinstance(tail.record, Takeover)
