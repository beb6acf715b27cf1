"""Several models in one process: what they share, and a process that is up when each is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from ttscommon.engine.lazy import ModelMemory
from ttscommon.process.admin import Merged
from ttscommon.process.service import Service
from ttscommon.process.settings import StageSettings
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import ModelFailed

S = TypeVar("S", bound=StageSettings)

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


async def run_models(
    service: Service, settings: S, run: Callable[[S, Sharing | None], Coroutine[Any, Any, None]]
) -> None:
    """`run` the settings' one model, or each of several until the service stops; raises what the
    first of them fails with.
    """
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
