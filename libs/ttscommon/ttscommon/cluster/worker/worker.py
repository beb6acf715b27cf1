"""A stage's worker: claims one job per free slot, keeps it alive, and ends or hands it on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from opentelemetry.trace import SpanContext

from ttscommon.bus import Bus, Delivery, Incoming
from ttscommon.cluster.jobs import Claims, Job, earliest_playback_s
from ttscommon.cluster.leases import HeldLease, Lease
from ttscommon.cluster.reporter import Reporter
from ttscommon.cluster.worker.endings import JobEndings
from ttscommon.cluster.worker.intake import Intake
from ttscommon.cluster.worker.isolation import Isolation, Ruling
from ttscommon.cluster.worker.leasekeeper import LeaseKeeper
from ttscommon.cluster.worker.tuning import DEFAULT_TUNING, WorkerTuning
from ttscommon.process import tracing
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import LoopWatch
from ttscommon.process.tasks import Chores, stop, until
from ttscommon.wire import subjects
from ttscommon.wire.epochs import Holding, is_first
from ttscommon.wire.errors import BusUnavailable, Fenced, LogGone, LogUnwritable, ModelFailed
from ttscommon.wire.messages import Cancel, SpeechRequest
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import Stage

log_ = structlog.get_logger(__name__)

Handler = Callable[[Job], Awaitable[None]]
Answer = Callable[[bytes], Awaitable[bytes]]
"""Answers a question of `ttscommon.wire.replicas`; raises nothing expected."""


class Worker:
    """Runs `handle(job)` for up to `slots` jobs of `models` at once.

    `handle` calls `job.spoken` when it has written the request's End, which lets the next job in,
    and returns when the log has it (the job is then acknowledged), or raises Fenced (another worker
    has the request), LogGone, LogUnwritable or ModelFailed (it cannot go on). Any other exception
    hands the job on; one that fails everywhere gets an error End.
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
        tuning: WorkerTuning = DEFAULT_TUNING,
        feeds: Stage | None = None,
        answer: Answer | None = None,
        watch: Callable[[], LoopWatch | None] = lambda: None,
    ) -> None:
        """`feeds`: the stage whose jobs `handle` queues. answer: of a stage that is asked. watch:
        of its engine's thread. While that hangs this worker is silent, takes nothing, and its jobs
        go on elsewhere, as if its process had been stopped.
        """
        self.active: dict[str, Job] = {}
        self._tuning = tuning
        self._bus = bus
        self._stage = stage
        self._models = models
        self._handle = handle
        self._answer = answer
        self._watch = watch
        self._report = report
        self._metrics = metrics
        self._chores = Chores()
        self._claims = Claims(slots, stage.parked_per_slot * slots)
        self._reporter = Reporter(bus, stage, models, report, self._hangs)
        self._isolation = Isolation(bus, stage, tuning.isolation)
        self._leases = LeaseKeeper(bus, self.active, self._supersede, self._chores, tuning)
        self._endings = JobEndings(bus, stage, feeds, self._leases, self._chores, tuning)
        self._intake = Intake(
            *(bus, stage, models, self._claims, self.active),
            *(self._begin, self._adopt_receipt, self._refuse, self._hangs),
        )

    @property
    def free(self) -> int:
        return self._claims.free

    @property
    def parked(self) -> int:
        """Jobs that wait without a slot, for text or their listeners."""
        return self._claims.parked

    @property
    def queued(self) -> int:
        """Jobs of this stage that no worker had taken at the last report."""
        return self._reporter.queued

    def span_of(self, request_id: str) -> SpanContext | None:
        """The span of a job, if it is in work; may be asked by any thread."""
        job = self.active.get(request_id)
        return None if job is None else job.span

    async def run(
        self,
        stopping: asyncio.Event,
        drain_s: float,
        ready: Callable[[], object] = lambda: None,
    ) -> None:
        """Work until `stopping`, then let running jobs end within `drain_s` or hand them on.

        `ready` is called once the cluster knows of this worker. Raises BusRefused when the broker
        will have nothing to do with this process any more.
        """
        for model in self._models:
            await self._bus.setup.ensure_consumer(self._stage, model)
        subscriptions = await self._subscribe()
        await self._reporter.enlist()
        ready()
        pulls = [
            asyncio.create_task(self._intake.pull(model), name=f"pull-{model}")
            for model in self._models
        ]
        others = [
            asyncio.create_task(self._heartbeat(), name="heartbeat"),
            asyncio.create_task(self._leases.watch(), name="leases"),
            asyncio.create_task(self._cancel_unheard(), name="listeners"),
            asyncio.create_task(self._reporter.run(), name="reports"),
            asyncio.create_task(self._bus.link.failed(), name="link"),
        ]
        try:
            await until(stopping, *pulls, *others)
        finally:
            self._claims.close()
            await stop(*pulls, again_s=self._tuning.clean_up_s)
            await self._drain(drain_s)
            await self._chores.finish(self._tuning.clean_up_s)
            await stop(*others)
            await self._reporter.withdraw()
            for subscription in subscriptions:
                await self._bus.link.unsubscribe(subscription)

    async def _subscribe(self) -> list[Any]:
        link, worker_id = self._bus.link, self._bus.worker_id
        heard: list[tuple[str, Callable[[Incoming], Awaitable[None]]]] = [
            (subjects.ping(worker_id), self._on_ping),
            (subjects.handover(worker_id), self._intake.on_handover),
            (subjects.holders(self._stage.name), self._on_holder_wanted),
        ]
        if self._answer is not None:
            heard.append((subjects.lookup(worker_id), self._on_lookup))
        return [await link.subscribe(*one) for one in heard]

    async def _on_lookup(self, message: Incoming) -> None:
        """One at a time: what waits is bounded by the gateways that ask."""
        assert self._answer is not None
        await message.respond(await self._answer(message.data))

    async def _on_ping(self, message: Incoming) -> None:
        """Answer with what is held here where that is asked for, else with how many seconds the
        engine's turn has taken.
        """
        if self._hangs():
            return
        if message.data:
            answer = Holding(self._stage.name, tuple(self._held())).encode()
        else:
            answer = f"{watch.turning_s:.3f}".encode() if (watch := self._watch()) else b""
        await message.respond(answer)

    def _hangs(self) -> bool:
        watch = self._watch()
        return watch is not None and watch.hangs

    def _held(self) -> frozenset[str]:
        return self._endings.closing.union(self.active)

    async def _on_holder_wanted(self, message: Incoming) -> None:
        if not self._hangs() and message.data.decode("ascii", "replace") in self._held():
            await self._bus.link.reply(message.reply, self._bus.worker_id.encode())

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._tuning.heartbeat_s)
            await self._leases.renew()

    async def _cancel_unheard(self) -> None:
        """Again and again. Without a broker no gateway can say that it hears a job, and what they
        said while this process was paused has yet to be read: such time does not count.
        """
        tuning = self._tuning
        while True:
            asleep_s = time.monotonic()
            await asyncio.sleep(tuning.listeners_s)
            now_s = time.monotonic()
            paused = now_s - asleep_s > tuning.listeners_s + tuning.suspension.late_s
            deaf = paused or not self._bus.connected
            for job in list(self.active.values()):
                if deaf:
                    job.listened_s = now_s
                elif job.is_unheard(now_s) and not job.cancelled.is_set():
                    log_.info("job.unheard", request_id=job.request_id, stage=self._stage.name)
                    job.control(Cancel(job.request_id, "no listener"))

    # A job's life

    def _begin(
        self, request: SpeechRequest, epoch: int, delivery: Delivery, known: Lease | None
    ) -> None:
        """Run a job whose slot is taken. `known`: what is known of it already."""
        if not is_first(epoch):
            request = request.again_now()  # also for the jobs that it leads to
        job = Job(request, epoch, delivery, claims=self._claims)
        if not is_first(epoch):
            job.playback_start_s = earliest_playback_s(request)
        lease = Lease(
            self._bus.worker_id, self._stage.name, job.request_id, epoch, delivery.receipt
        )
        job.held = HeldLease(lease if known is None else lease.with_figures_of(known))
        predecessor = self.active.get(job.request_id)
        self.active[job.request_id] = job
        name = f"job-{job.request_id}"
        job.task = asyncio.create_task(self._run(job, predecessor, known), name=name)

    def _adopt_receipt(self, job: Job, delivery: Delivery) -> None:
        """The broker gave a job again that is in work here."""
        job.message = delivery
        job.lease.lease = job.lease.lease.at(delivery.receipt)
        self._chores.start(self._leases.write(job))

    def _refuse(self, delivery: Delivery) -> None:
        model = delivery.named[0]
        known = [each for each in self._report().models if each.name == model and each.voices]
        voice = known[0].voices[0].id if known else ""
        self._chores.start(self._endings.refuse(delivery, voice))

    async def _run(self, job: Job, predecessor: Job | None, known: Lease | None) -> None:
        log = log_.bind(request_id=job.request_id, stage=self._stage.name, epoch=job.epoch)
        control: Any = None
        try:
            if predecessor is not None and predecessor.task is not None:
                log.warning("job.superseded")
                await self._supersede(predecessor)
            await self._leases.take(job, known=known is not None)
            control = await self._bus.link.listen(subjects.control(job.request_id), job.control)
            self._chores.start(self._heed_tombstone(job))
            self._account(job)
            await self._work(job)
        except Fenced as error:
            log.warning("job.fenced", error=error.message)
            await self._endings.let_go(job, error.owner)
        except asyncio.CancelledError:
            if not job.superseded:
                await self._endings.give_back(job)
            raise
        except (LogGone, LogUnwritable, ModelFailed) as error:
            log.error("job.ended", code=error.code, error=error.message)
            await self._endings.end(job, error.code, error.message)
        except Exception as error:
            log.exception("job.failed", error=str(error))
            await self._endings.failed(job)
        finally:
            if control is not None:
                await self._bus.link.unsubscribe(control)
            self._over(job)

    def _over(self, job: Job) -> None:
        if self.active.get(job.request_id) is job:
            del self.active[job.request_id]
        if job.superseded:
            self._chores.start(self._leases.release(job.lease))
        self._isolation.over(job)
        job.over()

    async def _work(self, job: Job) -> None:
        """Have the job handled, unless it must not be, here or at all."""
        match await self._isolation.judge(job, job.lease):
            case Ruling.CRASHES:
                message = "every worker that spoke this request crashed"
                log_.error("job.poison", request_id=job.request_id, stage=self._stage.name)
                await self._endings.end(job, "poison", message)
                return
            case Ruling.ELSEWHERE:
                bounces = job.lease.lease.bounces + 1
                pause_s = self._tuning.isolation.bounce_s
                await self._endings.give_back(job, delay_s=pause_s, bounces=bounces)
                return
            case Ruling.CANCELLED:
                await self._endings.end(job, "cancelled", "cancelled", outcome="cancelled")
                return
            case Ruling.TRIAL:
                self._chores.start(self._isolation.until_proven(job))
        headers = job.message.headers
        with tracing.processing(self._stage, job.request, job.epoch, headers) as span:
            job.span = span.get_span_context()
            await self._handle(job)
        self._endings.done(job)

    async def _supersede(self, job: Job) -> None:
        """Another delivery owns the request now: `job` ends without a word to the broker."""
        job.superseded = True
        if job.task is not None and job.task is not asyncio.current_task():
            await stop(job.task, again_s=self._tuning.clean_up_s)

    def _account(self, job: Job) -> None:
        if is_first(job.epoch):
            waited = max(0.0, time.time() - job.request.created_unix_s)
            self._metrics.queue_wait.labels(self._stage.name).observe(waited)
        else:
            log_.info("job.taken_over", request_id=job.request_id, epoch=job.epoch)
            self._metrics.recoveries.labels(self._stage.name).inc()

    async def _heed_tombstone(self, job: Job) -> None:
        """Take the Cancel that came before this worker subscribed.

        What is made again is for another listener than the one who cancelled.
        """
        if job.request.remake:
            return
        try:
            if await self._bus.is_cancelled(job.request_id):
                job.control(Cancel(job.request_id, "cancelled before it was claimed"))
        except BusUnavailable:
            log_.warning("tombstone.unread", request_id=job.request_id)

    async def _drain(self, drain_s: float) -> None:
        tasks = [job.task for job in self.active.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=drain_s)
        await stop(*tasks, again_s=self._tuning.clean_up_s)
