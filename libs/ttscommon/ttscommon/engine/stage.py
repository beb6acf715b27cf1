"""A stage as a service: an engine, and a worker that claims jobs for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import structlog

from ttscommon.bus import Bus, StoreWatch
from ttscommon.cluster.worker import Answer, Handler, Worker
from ttscommon.engine.interface import Build, E
from ttscommon.engine.served import ServedModel, Sharing
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttscommon.process.settings import StageSettings
from ttscommon.process.startup import VERSION
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import Stage

_DRAIN_RESERVE_S: Final = 2.0
_LOADING_REPORT_S: Final = 1.0

S = TypeVar("S", bound=StageSettings)

log_ = structlog.get_logger(__name__)


async def serve_stage(
    service: Service,
    settings: S,
    stage: Stage,
    build: Callable[[S], Build[E]],
    handler: Callable[[S, Bus, E], Handler],
    feeds: Stage | None = None,
    answer: Callable[[E], Answer] | None = None,
) -> None:
    """`run_stage` for the settings' one model, or for each of several until the service stops.

    Raises what the first of them fails with.
    """

    async def run(own: S, sharing: Sharing | None) -> None:
        made, handling = build(own), partial(handler, own)
        await run_stage(service, own, stage, made, handling, feeds, answer, sharing)

    if not settings.models:
        await run(settings, None)
        return
    each = settings.each()
    sharing = Sharing(service, settings, len(each))
    aside = [asyncio.create_task(sharing.memory.unload_idle(), name="unloading")]
    if settings.engine != "fake":
        aside.append(asyncio.create_task(sharing.import_torch(), name="importing"))
    serving = [
        asyncio.create_task(sharing.keep(own.model, run(own, sharing)), name=own.model)
        for own in each
    ]
    try:
        await asyncio.gather(*serving)
    finally:
        await stop(*serving, *aside)


async def run_stage(
    service: Service,
    settings: StageSettings,
    stage: Stage,
    build: Build[E],
    handler: Callable[[Bus, E], Handler],
    feeds: Stage | None = None,
    answer: Callable[[E], Answer] | None = None,
    sharing: Sharing | None = None,
) -> None:
    """Work on the stage's jobs until the service stops; raises what killed the engine, if any.

    `feeds`: the stage whose jobs this one queues. answer: what answers questions about the model.
    sharing: what other models of the process share with this one. An engine of these is loaded at
    its first job, and one that dies is loaded again; raises ModelFailed if it never can be.
    """
    metrics = Metrics(settings.model)
    metrics.startup.imported()
    (service if sharing is None else sharing).export(metrics.registry)
    connecting = asyncio.create_task(Bus.connect(settings.bus, stage.name))
    telling = asyncio.create_task(_tell_of_loading(connecting, stage, settings.model))
    model = ServedModel(service, settings, stage, build, metrics, sharing)
    try:
        await model.prepare()
    except BaseException:
        await stop(telling, connecting)
        if not connecting.cancelled() and connecting.exception() is None:
            await connecting.result().close()
        raise
    await stop(telling)
    with metrics.startup.part("bus"):
        bus = await connecting
    suffix = "" if sharing is None else f" of {settings.model}"
    service.ready_when(f"bus{suffix}", lambda: bus.connected)
    service.ready_when(f"store{suffix}", lambda: bus.link.store.problem is None)
    metrics.bus_up.labels().set_function(lambda: bus.connected)
    metrics.store_up.labels().set_function(lambda: bus.link.store.problem is None)
    watching = asyncio.create_task(StoreWatch(bus.link).run(), name="store")
    try:
        with metrics.startup.part("bus"):
            await bus.setup.verify()
            if feeds is not None:
                await bus.setup.ensure_consumer(feeds, settings.model)
        model.serve(bus, handler, feeds, answer)
        worker = Worker(
            bus,
            stage,
            model.names,
            settings.slots,
            model.handle,
            lambda: model.report(worker),
            metrics,
            feeds=feeds,
            answer=None if answer is None else model.answer,
            watch=lambda: model.watch,
        )
        model.instrument(worker)
        drain_s = max(0.0, settings.drain_s - _DRAIN_RESERVE_S)
        announce = service.announce if sharing is None else sharing.ready
        await worker.run(service.stopping, drain_s, ready=partial(_ready, stage, metrics, announce))
    finally:
        await stop(watching)
        await model.close()
        await bus.close()
    model.raise_error()


def _ready(stage: Stage, metrics: Metrics, announce: Callable[[], None]) -> None:
    metrics.startup.finish(stage.name)
    announce()


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
