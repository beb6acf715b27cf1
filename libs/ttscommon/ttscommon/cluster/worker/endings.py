"""Endings of a job at a worker: done, ended without the engine, given back, or another worker's."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import msgspec
import structlog

from ttscommon.bus import Bus, Delivery
from ttscommon.cluster.jobs import Job, grew
from ttscommon.cluster.leases import HeldLease, Lease
from ttscommon.cluster.worker.leasekeeper import LeaseKeeper
from ttscommon.cluster.worker.tuning import WorkerTuning
from ttscommon.process.tasks import Chores
from ttscommon.wire.epochs import message_of
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Fenced, MalformedMessage
from ttscommon.wire.messages import End, Outcome, SpeechRequest, decode, encode
from ttscommon.wire.subjects import AUDIO, Log, Stage

log_ = structlog.get_logger(__name__)


class JobEndings:
    """Tells the broker what became of a job, and takes its lease away."""

    def __init__(
        self,
        bus: Bus,
        stage: Stage,
        feeds: Stage | None,
        leases: LeaseKeeper,
        chores: Chores,
        tuning: WorkerTuning,
    ) -> None:
        self._bus = bus
        self._stage = stage
        self._feeds = feeds
        self._leases = leases
        self._chores = chores
        self._tuning = tuning
        self._closing: Counter[str] = Counter()

    @property
    def closing(self) -> frozenset[str]:
        """Requests whose jobs are done and not acknowledged yet."""
        return frozenset(self._closing)

    def done(self, job: Job) -> None:
        """The log has its end: acknowledge the job behind the slot's next one."""
        self._closing[job.request_id] += 1
        self._chores.start(self._close(job))

    async def end(self, job: Job, code: str, message: str, outcome: Outcome = "error") -> None:
        """Write the job's End without the engine, live at least, and be done with it."""
        await self._queue_next(job)
        try:
            await end_without_engine(self._bus, self._stage.writes, job, outcome, code, message)
        except Fenced as error:
            await self.let_go(job, error.owner)
            return
        self.done(job)

    async def refuse(self, delivery: Delivery, voice: str) -> None:
        """End the request of a job that no worker can read. `voice`: any that its model has, for
        the next stage, which opens a stream before it reads the End.

        All that is known of it is what its subject names. A subject that names no request leaves
        nothing to write an End to: no gateway makes one, and no client waits for it.
        """
        try:
            job = _unread(self._bus.worker_id, self._stage, delivery, voice)
        except MalformedMessage as error:
            log_.error("job.nameless", error=error.message)
            await delivery.discard()
            return
        await self.end(job, "internal", "a worker could not read the request")

    async def _queue_next(self, job: Job) -> None:
        """The End reaches the listener through the next stage, whose job may not be queued yet."""
        if self._feeds is None:
            return
        try:
            await self._bus.submit(self._feeds, job.request)
        except AntiphonError as error:
            log_.error("end.unheard", request_id=job.request_id, error=error.message)

    async def failed(self, job: Job) -> None:
        """Hand the job on, or end it if it fails everywhere and gets nowhere."""
        progress = await grew(self._bus, self._stage.writes, job.request_id, job.epoch)
        failures = 1 if progress else job.lease.lease.failures + 1
        if failures < self._tuning.most_failures:
            await self.give_back(job, delay_s=self._tuning.retry_s * failures, failures=failures)
            return
        await self.end(job, "internal", "synthesis failed")

    async def give_back(self, job: Job, delay_s: float = 0.0, **known: int) -> None:
        """Hand the job on, if it is still ours: a stale NAK would tear it from a healthy worker.

        If the broker cannot say, nothing is done: the reaper finds that no worker holds the job.
        """
        try:
            async with asyncio.timeout(self._tuning.give_back_s):
                if await job.lease.hand_back(self._bus, **known):
                    await job.message.hand_on(delay_s)
        except (TimeoutError, BusUnavailable):
            log_.warning("job.left", request_id=job.request_id, stage=self._stage.name)

    async def let_go(self, job: Job, owner: int) -> None:
        """Another worker has the request. A message that a later one replaced is thrown away."""
        job.superseded = True
        if message_of(owner) > job.message.sequence:
            await job.message.discard()

    async def _close(self, job: Job) -> None:
        try:
            await self._acknowledge(job)
        finally:
            self._closing -= Counter([job.request_id])
        await self._leases.release(job.lease)

    async def _acknowledge(self, job: Job) -> None:
        """An unacknowledged job would only be claimed again and found ended, so give up in time."""
        until_s = time.monotonic() + self._tuning.acks_s
        while not await job.message.acknowledge(self._tuning.ack_s):
            if time.monotonic() > until_s:
                log_.warning("job.ack_lost", request_id=job.request_id)
                break
            await asyncio.sleep(self._tuning.ack_pause_s)


def _unread(worker_id: str, stage: Stage, delivery: Delivery, voice: str) -> Job:
    """A job of which only the subject can be read; raises MalformedMessage where it names none."""
    model, request_id = delivery.named
    request = decode(encode(SpeechRequest(request_id, model, voice, text="")))
    assert isinstance(request, SpeechRequest)
    epoch = delivery.epoch(request)
    lease = Lease(worker_id, stage.name, request_id, epoch, delivery.receipt)
    return Job(request, epoch, delivery, held=HeldLease(lease))


async def end_without_engine(
    bus: Bus, log: Log, job: Job, outcome: Outcome, code: str, message: str
) -> None:
    """Write the End behind whatever the log holds; where it cannot be stored, deliver it live.

    Raises Fenced if another worker has the request.
    """
    end = End(job.request_id, 0, outcome, code, message)
    try:
        await (_end_audio(bus, job, end) if log is AUDIO else _end_log(bus, log, job, end))
    except Fenced:
        raise
    except AntiphonError as error:
        log_.error("end.unstored", request_id=job.request_id, error=error.message)
        own = msgspec.structs.replace(end, epoch=job.epoch)
        await bus.link.send_raw(log.live(job.request_id), encode(own))


async def _end_log(bus: Bus, log: Log, job: Job, end: End) -> None:
    writer = await bus.writer(
        log, job.request_id, job.epoch, restore=False, fresh=False, tenant=job.request.tenant
    )
    try:
        if not writer.ended:
            await writer.end(msgspec.structs.replace(end, start=writer.position))
        await writer.close()
    finally:
        await writer.release()


async def _end_audio(bus: Bus, job: Job, end: End) -> None:
    """Where the listener stands, or else as far as the log knows; to a listener alone if the log
    has its End.
    """
    request = job.request
    writer = await bus.audio_writer(job.request_id, job.epoch, fresh=False, tenant=request.tenant)
    try:
        start = writer.position if writer.listener is None else writer.listener.start
        if writer.remaking is None or start < writer.remaking.start:
            again = request.for_remaking()
            await writer.end(msgspec.structs.replace(end, start=start, request=again))
        await writer.close()
    finally:
        await writer.release()
