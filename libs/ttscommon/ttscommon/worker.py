"""A stage's worker: claims one job per free slot, keeps it alive, and ends or hands it on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from opentelemetry.trace import SpanContext

from ttscommon import subjects, tracing
from ttscommon.bus import Bus, Delivery, Incoming
from ttscommon.errors import AntiphonError, BusUnavailable, Fenced, MalformedMessage
from ttscommon.jobs import Job, earliest_playback_s
from ttscommon.messages import Cancel, End, SpeechRequest, decode
from ttscommon.metrics import Metrics
from ttscommon.replicas import Lease, Replica
from ttscommon.reporter import Reporter
from ttscommon.subjects import Stage
from ttscommon.tasks import stop

__all__ = ["Handler", "Job", "Worker", "WorkerTuning"]

log_ = structlog.get_logger(__name__)

Handler = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True)
class WorkerTuning:
    """`heartbeat_s`: a quarter of ack_wait. `most_deliveries`: after so many a job that fails
    everywhere ends in an error; `retry_s` times their number lies between two. `given_up_s`: the
    pause before the last one is tried again. `clean_up_s`: longer than a handler takes to leave.
    An acknowledgement is tried `acks` times, for `ack_s` each.
    """

    heartbeat_s: float = 7.0
    most_deliveries: int = 8
    retry_s: float = 0.2
    given_up_s: float = 5.0
    clean_up_s: float = 2.0
    acks: int = 10
    ack_s: float = 1.0
    ack_pause_s: float = 0.1


class Worker:
    """Runs `handle(job)` for up to `slots` jobs of `models` at once.

    `handle` returns when the request's log has its end (the job is then acknowledged), or raises
    Fenced (somebody else has the request). Any other exception hands the job on; one that fails
    everywhere gets an error End after some deliveries.
    """

    def __init__(
        self,
        bus: Bus,
        stage: Stage,
        models: Sequence[str],
        slots: int,
        handle: Handler,
        report: Callable[[], Replica],
        metrics: Metrics,
        tuning: WorkerTuning = WorkerTuning(),
    ) -> None:
        self._tuning = tuning
        self._bus = bus
        self._stage = stage
        self._models = models
        self._handle = handle
        self._reporter = Reporter(bus, stage, models, report)
        self._metrics = metrics
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self.active: dict[str, Job] = {}
        self._unreleased: set[str] = set()
        self._chores: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        return self._slots - len(self.active)

    @property
    def queued(self) -> int:
        """Jobs of this stage that nobody had taken at the last look."""
        return self._reporter.queued

    def spans(self) -> list[SpanContext]:
        """The spans of the jobs in work; may be asked by any thread."""
        return [job.span for job in list(self.active.values())]

    async def run(
        self,
        stopping: asyncio.Event,
        drain_s: float,
        ready: Callable[[], object] = lambda: None,
    ) -> None:
        """Work until `stopping`, then let running jobs end within `drain_s` or hand them on.

        `ready` is called once the cluster knows of this worker.
        """
        for model in self._models:
            await self._bus.ensure_consumer(self._stage, model)
        ping = await self._bus.link.subscribe(subjects.ping(self._bus.worker_id), _pong)
        await self._reporter.enlist()
        ready()
        duties = [asyncio.create_task(self._claim_loop(model)) for model in self._models]
        heart = asyncio.create_task(self._heartbeat_loop())
        reports = asyncio.create_task(self._reporter.run())
        try:
            await _until(stopping, *duties, heart, reports)
        finally:
            await stop(*duties, again_s=self._tuning.clean_up_s)
            await self._drain(drain_s)
            await stop(heart, reports)
            await self._reporter.withdraw()
            await self._bus.unsubscribe(ping)

    async def _claim_loop(self, model: str) -> None:
        feed = self._bus.queue.feed(self._stage, model)
        try:
            while True:
                await self._free.acquire()
                try:
                    await self._start(await feed.next())
                except BaseException:
                    self._free.release()
                    raise
        finally:
            await feed.close()

    async def _start(self, message: Delivery) -> None:
        """Begin the job, or drop it if it cannot be one; the slot is taken already."""
        try:
            request = decode(message.data)
            if not isinstance(request, SpeechRequest):
                raise MalformedMessage(f"{type(request).__name__} is no job")
        except MalformedMessage as error:
            log_.error("job.malformed", error=error.message)
            await message.discard()
            self._free.release()
            return
        job = Job(request, message.epoch, message)
        if job.epoch > 1:
            job.playback_start_s = earliest_playback_s(request)
        predecessor = self.active.get(job.request_id)
        if predecessor is not None and predecessor.epoch == job.epoch:
            # The broker died before it wrote down that we have it: nobody else was given it.
            predecessor.message = message
            self._free.release()
            self._in_background(self._lease(predecessor))
            return
        self.active[job.request_id] = job
        job.task = asyncio.create_task(self._run(job, predecessor), name=f"job-{job.request_id}")

    async def _run(self, job: Job, predecessor: Job | None) -> None:
        log = log_.bind(request_id=job.request_id, stage=self._stage.name, epoch=job.epoch)
        control: Any = None
        try:
            if predecessor is not None and predecessor.task is not None:
                log.warning("job.superseded")
                predecessor.superseded = True  # its lease lapsed: this delivery owns the request
                await stop(predecessor.task, again_s=self._tuning.clean_up_s)
            # Until the lease is written only ack_wait would miss us, so it goes first; none of
            # this is worth a listener's waiting for it.
            self._in_background(self._lease(job))
            control = await self._bus.listen(subjects.control(job.request_id), job.control)
            self._in_background(self._heed_tombstone(job))
            self._account(job)
            headers = job.message.headers
            with tracing.processing(self._stage, job.request, job.epoch, headers) as span:
                job.span = span.get_span_context()
                await self._handle(job)
            await self._acknowledge(job)
        except Fenced as error:
            log.warning("job.fenced", error=error.message)
            job.superseded = True
        except asyncio.CancelledError:
            if not job.superseded:
                await job.message.hand_on()
            raise
        except Exception as error:
            log.exception("job.failed", error=str(error))
            await self._hand_on(job)
        finally:
            if control is not None:
                await self._bus.unsubscribe(control)
            if self.active.get(job.request_id) is job:
                del self.active[job.request_id]
                if job.superseded:
                    self._in_background(self._disown(job))
                else:
                    await self._release_lease(job.request_id)
            self._free.release()

    def _in_background(self, duty: Coroutine[Any, Any, None]) -> None:
        """Run a short duty to its end, kept from being collected meanwhile."""
        task = asyncio.create_task(duty)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _heed_tombstone(self, job: Job) -> None:
        """Take the Cancel that came before anybody listened."""
        try:
            if await self._bus.is_cancelled(job.request_id):
                job.control(Cancel(job.request_id, "cancelled before it was claimed"))
        except BusUnavailable:
            log_.warning("tombstone.unread", request_id=job.request_id)

    def _account(self, job: Job) -> None:
        if job.epoch == 1:
            waited = max(0.0, time.time() - job.request.created_unix_s)
            self._metrics.queue_wait.labels(self._stage.name).observe(waited)
        else:
            log_.info("job.taken_over", request_id=job.request_id, epoch=job.epoch)
            self._metrics.recoveries.labels(self._stage.name).inc()

    async def _acknowledge(self, job: Job) -> None:
        """An unacknowledged job would only be claimed again and found ended, so give up in time."""
        for _ in range(self._tuning.acks):
            if await job.message.acknowledge(self._tuning.ack_s):
                return
            await asyncio.sleep(self._tuning.ack_pause_s)
        log_.warning("job.ack_lost", request_id=job.request_id)

    async def _hand_on(self, job: Job) -> None:
        deliveries = job.message.deliveries
        if deliveries < self._tuning.most_deliveries:
            await job.message.hand_on(self._tuning.retry_s * deliveries)
            return
        try:
            writer = await self._bus.writer(
                self._stage.writes, job.request_id, job.epoch, restore=False
            )
            if not writer.ended:
                end = End(job.request_id, writer.position, "error", "internal", "synthesis failed")
                await writer.end(end)
            await writer.close()
            await self._acknowledge(job)
        except AntiphonError as error:
            log_.error("job.poison", request_id=job.request_id, error=error.message)
            await job.message.hand_on(self._tuning.given_up_s)

    async def _lease(self, job: Job) -> None:
        lease = self._lease_of(job)
        try:
            await self._bus.kv.put(subjects.LEASES, lease.key, lease.encode())
        except BusUnavailable:
            log_.warning("lease.unwritten", request_id=job.request_id)
            return
        if self.active.get(job.request_id) is job:
            return
        if job.superseded:
            await self._disown(job)
        else:
            await self._release_lease(job.request_id)

    def _lease_of(self, job: Job) -> Lease:
        return Lease(
            self._bus.worker_id, self._stage.name, job.request_id, job.epoch, job.message.receipt
        )

    async def _disown(self, job: Job) -> None:
        """Take back the lease of a job that is another's, unless it is the other's already.

        A worker that was paused during a takeover renews stale leases before it learns that it
        was fenced.
        """
        lease = self._lease_of(job)
        try:
            await self._bus.kv.withdraw(subjects.LEASES, lease.key, lease.encode())
        except BusUnavailable:
            log_.debug("lease.left_to_expire", request_id=job.request_id)

    async def _release_lease(self, request_id: str) -> bool:
        """Whether the lease is gone; if not, the next heartbeat tries again."""
        try:
            await self._bus.kv.delete(subjects.LEASES, f"{self._stage.name}.{request_id}")
        except BusUnavailable:
            log_.debug("lease.unreleased", request_id=request_id)
            self._unreleased.add(request_id)
            return False
        self._unreleased.discard(request_id)
        return True

    async def _heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._tuning.heartbeat_s)
            for job in list(self.active.values()):
                await job.message.renew()
                await self._lease(job)
            for request_id in self._unreleased - self.active.keys():
                if not await self._release_lease(request_id):
                    break

    async def _drain(self, drain_s: float) -> None:
        tasks = [job.task for job in self.active.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=drain_s)
        await stop(*tasks, again_s=self._tuning.clean_up_s)


async def _until(stopping: asyncio.Event, *duties: asyncio.Task[None]) -> None:
    """Wait for `stopping`. A duty ends only by failing, and a worker without it is no worker."""
    stop = asyncio.create_task(stopping.wait())
    try:
        done, _ = await asyncio.wait({stop, *duties}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.cancel()


async def _pong(message: Incoming) -> None:
    await message.respond(b"")
