"""A claimed job: its request, its slot, what is told of it meanwhile, and its holder's progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

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
# A pull keeps the priority it was asked with, so it is asked anew when the load has fallen by so
# much.
_EASED: Final = 0.25


class Claims:
    """Counts jobs and outstanding pulls; together they never exceed the slots.

    A job that is handed over directly goes before a pull: `preempted` is set, and the pull has to
    end. So it has when this worker's load has fallen well below what the pull was asked with. Once
    closed, nothing is pulled and nothing is taken. A job that was parked comes back before anything
    is pulled.
    """

    def __init__(self, total: int, parkable: int = 0) -> None:
        """`parkable`: jobs that may wait without a slot."""
        self.total = total
        self.used = 0
        self.parked = 0
        self.preempted = asyncio.Event()
        self._pulls = 0
        self._pulled_at = 0.0
        self._closing = 0
        self._parkable = parkable
        self._returning = 0
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        return 0 if self._closed else self.total - self.used

    @property
    def load(self) -> float:
        """The share of the slots that is taken."""
        return self.used / self.total

    async def reserve(self) -> None:
        """Wait for a slot to pull for; `pulled` or `unreserve` must follow."""
        while self._closed or self.used + self._pulls + self._returning >= self.total:
            self._changed.clear()
            await self._changed.wait()
        self._pulls += 1
        self._pulled_at = self.load
        self._judge()

    def pulled(self) -> bool:
        """The pull brought a job; False if there is no room for it any more."""
        self.unreserve()
        return self.take()

    def unreserve(self) -> None:
        """The pull brought nothing."""
        self._pulls -= 1
        self._judge()

    def take(self) -> bool:
        """Take a slot for a job, at a pull's cost if need be; False if there is none."""
        if self._closed or self.used >= self.total:
            return False
        self.used += 1
        self._judge()
        return True

    def give_back(self) -> None:
        """A job has ended."""
        if self.used < 1:
            raise AssertionError("gave back a slot that was not taken")
        self.used -= 1
        self._judge()

    def lend(self) -> bool:
        """Let another job take the slot of one that is spoken and waits for the broker.

        As many may wait as there are slots, so that a broker that takes nothing ends the work.
        """
        if self._closing >= self.total:
            return False
        self._closing += 1
        self.give_back()
        return True

    def settle(self) -> None:
        """A job that lent its slot is over."""
        self._closing -= 1

    @property
    def parkable(self) -> bool:
        """Whether one more job may wait without a slot."""
        return self.parked < self._parkable

    def park(self) -> bool:
        """Let other jobs have the slot of one that waits; False if too many wait already."""
        if not self.parkable:
            return False
        self.parked += 1
        self.give_back()
        return True

    async def unpark(self) -> None:
        """Wait for a slot for a job that waited, also where nothing new is taken any more."""
        self._returning += 1
        self._judge()
        try:
            while self.used >= self.total:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._returning -= 1
        self.used += 1
        self.leave()

    def leave(self) -> None:
        """A job that was parked is so no more."""
        self.parked -= 1
        self._judge()

    def close(self) -> None:
        """Take nothing more, ever."""
        self._closed = True
        self._judge()

    def _judge(self) -> None:
        full = self._closed or self.used + self._pulls + self._returning > self.total
        eased = self._pulled_at - self.load >= _EASED
        if self._pulls and (full or eased):
            self.preempted.set()
        else:
            self.preempted.clear()
        self._changed.set()


@dataclass(eq=False)
class Job:
    """A claimed request, and the epoch with which this worker writes its log.

    claims: of the worker whose slot it has, which it may lend early or leave for a while. `over`
    gives that back.
    """

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
    claims: Claims | None = None
    parked: bool = False
    lent: bool = False
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
        if self.claims is not None and not self.parked:
            self.lent = self.lent or self.claims.lend()

    @property
    def parkable(self) -> bool:
        return self.claims is not None and self.claims.parkable

    def park(self) -> bool:
        """Let other jobs have the slot until `unpark`; False if this one has to keep it."""
        self.parked = self.claims is not None and self.claims.park()
        return self.parked

    async def unpark(self) -> None:
        """Wait for a slot, before all jobs that are still in the queue."""
        if self.claims is not None:
            await self.claims.unpark()
        self.parked = False

    def over(self) -> None:
        assert self.claims is not None
        if self.parked:
            self.claims.leave()
        elif self.lent:
            self.claims.settle()
        else:
            self.claims.give_back()

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
