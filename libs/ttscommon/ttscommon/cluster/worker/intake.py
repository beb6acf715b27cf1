"""A worker's intake of jobs: a pull for each free slot, and jobs that are handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from ttscommon.bus import Bus, Delivery, Incoming, JobFeed
from ttscommon.cluster.jobs import Claims, Job
from ttscommon.cluster.leases import Lease
from ttscommon.process.tasks import stop
from ttscommon.wire.epochs import FULL, TAKEN, HandOver
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest, decode
from ttscommon.wire.subjects import Stage

# Request, epoch, delivery, and what is known of the job's past already.
Begin = Callable[[SpeechRequest, int, Delivery, Lease | None], None]

# Between two looks whether an engine still hangs.
_HANGS_S: Final = 0.5

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
        hangs: Callable[[], bool],
    ) -> None:
        self._bus = bus
        self._stage = stage
        self._models = models
        self._claims = claims
        self._active = active
        self._begin = begin
        self._adopt = adopt
        self._refuse = refuse
        self._hangs = hangs

    async def pull(self, model: str) -> None:
        """Pull one job after another, as slots become free; never ends."""
        restore = partial(self._bus.setup.restore_consumer, self._stage, model)
        feed = JobFeed(self._bus.link, self._stage, model, lambda: self._claims.load, restore)
        try:
            while True:
                if self._hangs():
                    await asyncio.sleep(_HANGS_S)
                    continue
                await self._claims.reserve()
                delivery = await self._one(feed.next())
                if delivery is not None:
                    await self._start(delivery)
        finally:
            await feed.close()

    async def _one(self, pull: Coroutine[Any, Any, Delivery]) -> Delivery | None:
        """The next job, with a slot for it; None when the slot is needed otherwise, or the engine
        hangs.
        """
        pulling = asyncio.create_task(pull)
        preempted = asyncio.create_task(self._claims.preempted.wait())
        wanted = False
        try:
            await asyncio.wait({pulling, preempted}, return_when=asyncio.FIRST_COMPLETED)
            wanted = not self._hangs()
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
        foreign = handed.request.model not in self._models
        if foreign or stale or self._hangs() or not self._claims.take():
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
