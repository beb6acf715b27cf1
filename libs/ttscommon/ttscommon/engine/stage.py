"""A stage as a service: an engine, and a worker that claims jobs for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

import structlog

from ttscommon.bus import Bus, StoreWatch
from ttscommon.cluster.worker import Answer, Handler, Worker
from ttscommon.engine.runtime import OnStep
from ttscommon.process import tracing
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttscommon.process.settings import StageSettings
from ttscommon.process.tasks import stop
from ttscommon.process.version import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.replicas import Model, Replica
from ttscommon.wire.subjects import Stage

_DRAIN_RESERVE_S: Final = 2.0
_HEARTBEAT_LIMIT_S: Final = 30.0
_LOADING_REPORT_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class StageSpec(Protocol):
    """What a model or a codec says of itself."""

    @property
    def name(self) -> str: ...
    def listed(self, name: str) -> Model:
        """As the catalogue shows it, under any of the names that it serves."""


class StageEngine(Protocol):
    """One thread that works on many streams.

    `error` is what killed it, if anything did; `on_step` hears of its steps, see Runtime. The
    other properties: see Replica.
    """

    on_step: OnStep | None

    @property
    def spec(self) -> StageSpec: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def step_seconds(self) -> dict[int, float]: ...
    @property
    def frame_seconds(self) -> float: ...
    @property
    def kv_positions(self) -> tuple[int, int]: ...
    @property
    def slowed(self) -> float: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


E_co = TypeVar("E_co", bound=StageEngine, covariant=True)
E = TypeVar("E", bound=StageEngine)


class Build(Protocol[E_co]):
    """Makes a warmed-up engine that tells of every turn by `beat` and of its death by `died`."""

    def __call__(
        self, metrics: Metrics, *, beat: Callable[[], None], died: Callable[[], object]
    ) -> E_co: ...


async def run_stage(
    service: Service,
    settings: StageSettings,
    stage: Stage,
    build: Build[E],
    handler: Callable[[Bus, E], Handler],
    feeds: Stage | None = None,
    answer: Callable[[E], Answer] | None = None,
) -> None:
    """Work on the stage's jobs until the service stops; raises what killed the engine, if any.

    `feeds`: the stage whose jobs this one queues. answer: what answers questions about the model.
    """
    loop = asyncio.get_running_loop()
    metrics = Metrics(settings.model)
    metrics.startup.imported()
    service.export(metrics.registry)
    connecting = asyncio.create_task(Bus.connect(settings.bus, stage.name))
    telling = asyncio.create_task(_tell_of_loading(connecting, stage, settings.model))
    try:
        engine = await asyncio.to_thread(
            build,
            metrics,
            beat=lambda: service.heartbeat("engine"),
            died=lambda: loop.call_soon_threadsafe(service.stop),
        )
    except BaseException:
        await stop(telling, connecting)
        raise
    await stop(telling)
    service.watch("engine", _HEARTBEAT_LIMIT_S)
    engine.start()
    with metrics.startup.part("bus"):
        bus = await connecting
    service.ready_when("bus", lambda: bus.connected)
    service.ready_when("store", lambda: bus.link.store.problem is None)
    metrics.bus_up.labels().set_function(lambda: bus.connected)
    metrics.store_up.labels().set_function(lambda: bus.link.store.problem is None)
    watching = asyncio.create_task(StoreWatch(bus.link).run(), name="store")
    try:
        with metrics.startup.part("bus"):
            await bus.verify()
            if feeds is not None:
                await bus.ensure_consumer(feeds, engine.spec.name)
        worker = Worker(
            bus,
            stage,
            _names(engine, settings),
            settings.slots,
            handler(bus, engine),
            lambda: _report(bus, stage, engine, settings, worker, service),
            metrics,
            feeds=feeds,
            answer=None if answer is None else answer(engine),
        )
        _instrument(settings, stage, engine, worker, metrics)
        drain_s = max(0.0, settings.drain_s - _DRAIN_RESERVE_S)
        await worker.run(service.stopping, drain_s, ready=partial(_ready, service, stage, metrics))
    finally:
        service.unwatch("engine")
        await stop(watching)
        await asyncio.to_thread(engine.stop)
        await bus.close()
    if engine.error is not None:
        raise engine.error


def _ready(service: Service, stage: Stage, metrics: Metrics) -> None:
    metrics.startup.finish(stage.name)
    service.announce()


def _instrument(
    settings: StageSettings, stage: Stage, engine: StageEngine, worker: Worker, metrics: Metrics
) -> None:
    """Trace the engine's steps where traces are on, and export what the worker knows."""
    if settings.tracing.endpoint is not None:
        engine.on_step = tracing.StepSpans(stage.name, worker.span_of).observe
    metrics.slots.labels(stage.name).set(settings.slots)
    # A counter that appears with its first event has not increased, for Prometheus.
    metrics.recoveries.labels(stage.name)
    metrics.steady_from_zero(stage.name)
    metrics.queue_jobs.labels(stage.name).set_function(lambda: worker.queued)
    if stage.parked_per_slot:
        metrics.parked.labels(stage.name).set_function(lambda: worker.parked)


async def _tell_of_loading(connecting: asyncio.Task[Bus], stage: Stage, model: str) -> None:
    """Have the cluster know what will be served soon, until it is cancelled."""
    bus = await asyncio.shield(connecting)
    replica = Replica(
        bus.worker_id, stage.name, (), slots=0, free=0, loading=model, version=VERSION
    )
    while True:
        try:
            await bus.kv.put(subjects.REPLICAS, f"{stage.name}.{bus.worker_id}", replica.encode())
        except BusUnavailable as error:
            log_.debug("loading.unreported", error=error.message)
        await asyncio.sleep(_LOADING_REPORT_S)


def _names(engine: StageEngine, settings: StageSettings) -> list[str]:
    return [engine.spec.name, *settings.also]


def _report(
    bus: Bus,
    stage: Stage,
    engine: StageEngine,
    settings: StageSettings,
    worker: Worker,
    service: Service,
) -> Replica:
    spec = engine.spec
    kv_free, kv_positions = engine.kv_positions
    return Replica(
        worker_id=bus.worker_id,
        stage=stage.name,
        models=tuple(spec.listed(name) for name in _names(engine, settings)),
        slots=settings.slots,
        free=worker.free,
        batch=settings.batch_streams,
        queued=worker.queued,
        step_s=engine.step_seconds,
        frame_s=engine.frame_seconds,
        kv_free=kv_free,
        kv_positions=kv_positions,
        draining=service.stopping.is_set(),
        # A fake engine sleeps, which no other program slows.
        slowed=1.0 if settings.engine == "fake" else engine.slowed,
        version=VERSION,
    )
