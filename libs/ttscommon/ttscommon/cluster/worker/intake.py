"""A worker's intake of jobs: a pull for each free slot, and jobs that are handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from ttscommon.bus import Bus, Delivery, Incoming
from ttscommon.cluster.jobs import Job
from ttscommon.cluster.leases import Lease
from ttscommon.process.tasks import stop
from ttscommon.wire.epochs import FULL, TAKEN, HandOver
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest, decode
from ttscommon.wire.subjects import Stage

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


class Slot:
    """The slot of one job. `spoken` lends it early, `park` for a while, `over` gives it back."""

    def __init__(self, claims: Claims) -> None:
        self.parked = False
        self._claims = claims
        self._lent = False

    @property
    def parkable(self) -> bool:
        return self._claims.parkable

    def spoken(self) -> None:
        """The job's End is written; what is left is the broker's word."""
        if not self.parked:
            self._lent = self._lent or self._claims.lend()

    def park(self) -> bool:
        """The job waits; False if it has to keep the slot."""
        self.parked = self._claims.park()
        return self.parked

    async def unpark(self) -> None:
        """The job goes on."""
        await self._claims.unpark()
        self.parked = False

    def over(self) -> None:
        if self.parked:
            self._claims.leave()
        elif self._lent:
            self._claims.settle()
        else:
            self._claims.give_back()


# Request, epoch, delivery, and what is known of the job's past already.
Begin = Callable[[SpeechRequest, int, Delivery, Lease | None], None]

log_ = structlog.get_logger(__name__)


class Intake:
    """Calls `begin` for every job, with its slot taken; `adopt` when the same one came again, and
    `refuse` for a message that is no job of the request that its subject names.
    """

    def __init__(
        self,
        bus: Bus,
        stage: Stage,
        models: Sequence[str],
        claims: Claims,
        active: Mapping[str, Job],
        begin: Begin,
        adopt: Callable[[Job, Delivery], None],
        refuse: Callable[[Delivery], None],
    ) -> None:
        self._bus = bus
        self._stage = stage
        self._models = models
        self._claims = claims
        self._active = active
        self._begin = begin
        self._adopt = adopt
        self._refuse = refuse

    async def pull(self, model: str) -> None:
        """Pull one job after another, as slots become free; never ends."""
        restore = partial(self._bus.setup.restore_consumer, self._stage, model)
        feed = self._bus.queue.feed(self._stage, model, lambda: self._claims.load, restore)
        try:
            while True:
                await self._claims.reserve()
                delivery = await self._one(feed.next())
                if delivery is not None:
                    await self._start(delivery)
        finally:
            await feed.close()

    async def _one(self, pull: Coroutine[Any, Any, Delivery]) -> Delivery | None:
        """The next job, with a slot for it; None when the slot is needed otherwise."""
        pulling = asyncio.create_task(pull)
        preempted = asyncio.create_task(self._claims.preempted.wait())
        wanted = False
        try:
            await asyncio.wait({pulling, preempted}, return_when=asyncio.FIRST_COMPLETED)
            wanted = True
        finally:
            if not pulling.done():
                await stop(pulling)
            await stop(preempted)
            brought = not pulling.cancelled() and pulling.exception() is None
            if wanted and brought:
                wanted = self._claims.pulled()
            else:
                self._claims.unreserve()
            if brought and not wanted:
                await pulling.result().hand_on()
        if pulling.cancelled():
            return None
        return pulling.result() if wanted or not brought else None

    async def _start(self, delivery: Delivery) -> None:
        """Begin the job, or refuse it if it cannot be one."""
        try:
            request = _request(delivery)
        except MalformedMessage as error:
            log_.error("job.malformed", error=error.message, request_id=delivery.named[1])
            self._claims.give_back()
            self._refuse(delivery)
            return
        epoch = delivery.epoch(request)
        predecessor = self._active.get(request.request_id)
        if predecessor is not None and predecessor.epoch == epoch:
            # The broker died before it wrote down that we have it: no other worker was given it.
            self._claims.give_back()
            self._adopt(predecessor, delivery)
            return
        self._begin(request, epoch, delivery, None)

    async def on_handover(self, message: Incoming) -> None:
        """The reaper hands a dead worker's job over directly."""
        try:
            handed = HandOver.decode(message.data)
        except MalformedMessage as error:
            log_.error("handover.malformed", error=error.message)
            await self._bus.link.reply(message.reply, FULL)
            return
        current = self._active.get(handed.request.request_id)
        stale = current is not None and current.epoch >= handed.epoch
        if handed.request.model not in self._models or stale or not self._claims.take():
            await self._bus.link.reply(message.reply, FULL)
            return
        link = self._bus.link
        delivery = Delivery(link, handed.receipt, b"", handed.sequence, 1, handed.trace)
        log_.info("job.handed_over", request_id=handed.request.request_id, stage=self._stage.name)
        self._begin(handed.request, handed.epoch, delivery, Lease.handed(handed, self._stage.name))
        await link.reply(message.reply, TAKEN)
        await delivery.renew()


def _request(delivery: Delivery) -> SpeechRequest:
    """What is asked for; raises MalformedMessage."""
    request = decode(delivery.data)
    if not isinstance(request, SpeechRequest):
        raise MalformedMessage(f"{type(request).__name__} is no job")
    if request.request_id != delivery.named[1]:
        raise MalformedMessage(f"the job of {delivery.named[1]} is of {request.request_id}")
    return request
