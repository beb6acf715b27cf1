"""A model as its worker and the cluster see it: always there, its engine loaded or not; and what
several models of one process share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from ttscommon.bus import Bus
from ttscommon.cluster.worker import Answer, Handler, Job, Worker
from ttscommon.engine.interface import Build, E
from ttscommon.engine.lazy import LazyEngine, ModelMemory
from ttscommon.engine.remembered import Remembered
from ttscommon.process import tracing
from ttscommon.process.admin import Merged
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import LoopWatch, Service
from ttscommon.process.settings import StageSettings
from ttscommon.process.startup import VERSION
from ttscommon.wire.errors import AntiphonError, ModelFailed
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import Stage

_HEARTBEAT_LIMIT_S: Final = 30.0

log_ = structlog.get_logger(__name__)


class Sharing:
    """Memory, metrics and readiness of a process with `models` models."""

    def __init__(self, service: Service, settings: StageSettings, models: int) -> None:
        """To be made on the event loop."""
        self.memory = ModelMemory(settings.models_bytes, settings.model_idle_s)
        self._service, self._models = service, models
        self._waiting, self._settled = models, asyncio.Event()
        self._failures: list[ModelFailed] = []
        self._metrics, registry = Merged(), CollectorRegistry()
        registry.register(self._metrics)
        service.export(registry)

    def export(self, metrics: CollectorRegistry) -> None:
        """Serve these metrics as well from now on."""
        self._metrics.registries.append(metrics)

    def ready(self) -> None:
        """One more model takes work, or never will; the process does when all are settled."""
        self._waiting -= 1
        if not self._waiting:
            self._service.announce()
            self._settled.set()

    async def import_torch(self) -> None:
        """Once the process takes work, have what every engine imports: the first request would wait
        for it, longer than its listener does on a slow machine.
        """
        await self._settled.wait()
        await asyncio.to_thread(import_module, "torch")

    async def keep(self, model: str, serving: Awaitable[None]) -> None:
        """Serve one of the models. One that cannot be loaded is left out, unless none can be: then
        it raises why.
        """
        try:
            await serving
        except ModelFailed as error:
            self._failures.append(error)
            if len(self._failures) == self._models:
                raise error.__cause__ or error from None
            self._service.left_out[model] = str(error.__cause__ or error)
            self.ready()


class ServedModel(LazyEngine[E]):
    """Loads its engine for the jobs that need it, and reports what was last known of it."""

    def __init__(
        self,
        service: Service,
        settings: StageSettings,
        stage: Stage,
        build: Build[E],
        metrics: Metrics,
        sharing: Sharing | None,
    ) -> None:
        self.names = [settings.model, *settings.also]
        self._service, self._settings, self._stage = service, settings, stage
        self._metrics, self._shared = metrics, sharing is not None
        self._watched = "engine" if sharing is None else f"engine of {settings.model}"
        # Of the engine that is loaded.
        self.watch: LoopWatch | None = None
        self._loop = asyncio.get_running_loop()
        self._remembered = None if sharing is None else Remembered(stage.name, settings)
        self._last = None if self._remembered is None else self._remembered.read()
        self._handled: tuple[E, Handler] | None = None
        self._worker: Worker | None = None
        super().__init__(
            settings.model,
            partial(
                build,
                metrics,
                beat=lambda: service.heartbeat(self._watched),
                died=lambda: self._loop.call_soon_threadsafe(self._died),
            ),
            None if sharing is None else sharing.memory,
            self._last.memory_bytes if self._last else 0,
        )

    async def prepare(self) -> None:
        """Have something to report: load the model, unless it was loaded before and shares its
        process. Raises what building it raises, ModelFailed where it shares its process.
        """
        if self._last is not None:
            return
        if self._shared:
            async with self.use():
                return
        await self.load()

    def serve(
        self,
        bus: Bus,
        handler: Callable[[Bus, E], Handler],
        feeds: Stage | None,
        answer: Callable[[E], Answer] | None,
    ) -> None:
        """From now on jobs may come; see run_stage."""
        self._bus, self._handler, self._feeds, self._answer = bus, handler, feeds, answer
        if self.engine is not None:
            self._handle_with(self.engine)

    async def handle(self, job: Job) -> None:
        """Work on a job with the engine, loaded for it if need be."""
        if self.engine is None:
            await self._tell_next(job.request)
        async with self.use() as engine:
            await self._handle_with(engine)(job)

    async def answer(self, asked: bytes) -> bytes:
        """Answer a question about the model, likewise."""
        assert self._answer is not None
        async with self.use() as engine:
            return await self._answer(engine)(asked)

    def report(self, worker: Worker) -> Replica:
        """The worker as it is now, its model as it is or was when it was loaded."""
        if (engine := self._alive) is not None:
            self._last = self._described(engine)
        assert self._last is not None
        return msgspec.structs.replace(
            self._last,
            worker_id=self._bus.worker_id,
            free=worker.free,
            queued=worker.queued,
            draining=self._service.stopping.is_set(),
            loaded=engine is not None,
            memory_bytes=self.held_bytes,
        )

    def instrument(self, worker: Worker) -> None:
        """Export what the worker knows, and trace the engine's steps where traces are on."""
        stage, metrics = self._stage, self._metrics
        self._worker = worker
        self._trace()
        metrics.slots.labels(stage.name).set(self._settings.slots)
        # A counter that appears with its first event has not increased, for Prometheus.
        metrics.recoveries.labels(stage.name)
        metrics.steady_from_zero(stage.name)
        metrics.queue_jobs.labels(stage.name).set_function(lambda: worker.queued)
        if stage.parked_per_slot:
            metrics.parked.labels(stage.name).set_function(lambda: worker.parked)
        if self._shared:
            metrics.model_bytes.labels(stage.name).set_function(lambda: self.held_bytes)
            metrics.model_crashes.labels(stage.name)
            metrics.model_loads.labels(stage.name)

    async def close(self) -> None:
        """Stop the engine, and load none any more."""
        self._unwatch()
        await super().close()

    def raise_error(self) -> None:
        """Raise what killed the engine, where the process lives by it alone."""
        engine = self.engine
        if not self._shared and engine is not None and engine.error is not None:
            raise engine.error

    @property
    def _alive(self) -> E | None:
        engine = self.engine
        return None if engine is None or (self._shared and engine.error is not None) else engine

    def _handle_with(self, engine: E) -> Handler:
        """The jobs' handler; each engine has one."""
        if self._handled is None or self._handled[0] is not engine:
            self._handled = engine, self._handler(self._bus, engine)
        return self._handled[1]

    async def _tell_next(self, request: SpeechRequest) -> None:
        """Have the next stage load its part at the same time. What is told a recording has to wait
        for it to be read.
        """
        told = request.reference is None and all(turn.sound is None for turn in request.turns)
        if self._feeds is not None and told:
            with suppress(AntiphonError):  # the job queues it once more, and says what is wrong
                await self._bus.submit(self._feeds, request)

    def _loaded(self, whether: bool) -> None:
        """The engine is there, and does not turn yet; or it is about to stop."""
        if not whether:
            self._unwatch()
            self._handled = None
            return
        self.watch = self._service.watch(self._watched, _HEARTBEAT_LIMIT_S)
        self._trace()
        self._last = self._described(self.engine)
        if self._remembered is not None:
            self._metrics.model_loads.labels(self._stage.name).inc()
            self._remembered.write(self._last)

    def _trace(self) -> None:
        engine = self.engine
        if self._settings.tracing.endpoint and self._worker is not None and engine is not None:
            engine.on_step = tracing.StepSpans(self._stage.name, self._worker.span_of).observe

    def _died(self) -> None:
        """A process that lives by one engine ends with it, and its successor takes over. Of several
        only this one's streams go on elsewhere, or here, with an engine that is loaded anew.
        """
        if not self._shared:
            self._service.stop()
            return
        error = self.engine and self.engine.error
        log_.error("model.crashed", model=self.names[0], error=str(error))
        self._metrics.model_crashes.labels(self._stage.name).inc()
        self._unwatch()

    def _unwatch(self) -> None:
        self.watch = None
        self._service.unwatch(self._watched)

    def _described(self, engine: E | None) -> Replica:
        assert engine is not None
        kv_free, kv_positions = engine.kv_positions
        settings = self._settings
        return Replica(
            worker_id="",
            stage=self._stage.name,
            models=tuple(engine.spec.listed(name) for name in self.names),
            slots=settings.slots,
            free=settings.slots,
            batch=settings.batch_streams,
            step_s=engine.step_seconds,
            frame_s=engine.frame_seconds,
            kv_free=kv_free,
            kv_positions=kv_positions,
            # A fake engine sleeps, which no other program slows.
            slowed=1.0 if settings.engine == "fake" else engine.slowed,
            version=VERSION,
            memory_bytes=self.held_bytes,
        )
