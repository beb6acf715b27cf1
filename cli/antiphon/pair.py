"""`python -m antiphon.pair`: a talker and a vocoder in one process, to share a GPU.

Each stage is a participant of the bus as ever, with jobs, leases and reports of its own. What they
share is a process, and with it the CUDA context: only so do stream priorities hold between them
(docs/decisions/0040).

Settings are those of both stages. One that is given as ANTIPHON_X goes to every stage that knows
it, ANTIPHON_TALKER__X and ANTIPHON_VOCODER__X to one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from os import environ as environment
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

import talker.service
import vocoder.service
from talker.settings import TalkerSettings
from ttscommon.process.service import DEFAULT_HEARTBEAT_LIMIT_S, Service, run_process
from ttscommon.process.settings import PREFIX, SettingsError, StageSettings
from vocoder.settings import VocoderSettings

_EXIT_USAGE: Final = 2
_STAGES: Final = ("talker", "vocoder")

Settings = TypeVar("Settings", bound=StageSettings)


class Merged(Collector):
    """Metrics of several registries as one: series differ in their stage.

    The few that name none, such as the broker's, are the same in both; the first one's count.
    """

    def __init__(self) -> None:
        self.registries: list[CollectorRegistry] = []

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for registry in self.registries:
            for family in registry.collect():
                known = families.setdefault(family.name, family)
                series = {_series(sample) for sample in known.samples}
                known.samples += [one for one in family.samples if _series(one) not in series]
        return families.values()


def _series(sample: Sample) -> tuple[str, ...]:
    return (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))


class Building:
    """Stages that are built one after another, and used when all of them are there.

    The vocoder comes first: a talker's cache takes most of the memory that is left. Neither works
    while the other records its graphs.
    """

    def __init__(self) -> None:
        self._vocoder, self._all = asyncio.Event(), asyncio.Barrier(len(_STAGES))

    @asynccontextmanager
    async def of(self, stage: str) -> AsyncIterator[None]:
        if stage == "talker":
            await self._vocoder.wait()
        yield
        self._vocoder.set()
        await self._all.wait()


class Half(Service):
    """A stage's view of the service that both live in: the same end, health under its own name."""

    def __init__(
        self,
        whole: Service,
        stage: str,
        announced: Callable[[str], None],
        metrics: Merged,
        building: Building,
    ) -> None:
        """announced: called with the stage as soon as it takes work."""
        super().__init__(stage, whole.settings)
        self.stopping = whole.stopping
        self._whole, self._announce, self._metrics = whole, announced, metrics
        self._building = building

    @asynccontextmanager
    async def building(self) -> AsyncIterator[None]:
        async with self._building.of(self.name):
            yield

    def export(self, metrics: CollectorRegistry) -> None:
        self._metrics.registries.append(metrics)

    def watch(self, name: str, limit_s: float = DEFAULT_HEARTBEAT_LIMIT_S) -> None:
        self._whole.watch(f"{self.name} {name}", limit_s)

    def unwatch(self, name: str) -> None:
        self._whole.unwatch(f"{self.name} {name}")

    def heartbeat(self, name: str) -> None:
        self._whole.heartbeat(f"{self.name} {name}")

    def ready_when(self, name: str, condition: Callable[[], bool]) -> None:
        self._whole.ready_when(f"{self.name} {name}", condition)

    def announce(self, **ports: int) -> None:
        self._whole.ports.update(ports)
        self._announce(self.name)

    def stop(self) -> None:
        self._whole.stop()


async def serve(service: Service, talking: TalkerSettings, vocoding: VocoderSettings) -> None:
    """Run both stages until the service stops; what ends one ends the other."""
    waiting, merged, building = set(_STAGES), Merged(), Building()
    registry = CollectorRegistry()
    registry.register(merged)
    service.export(registry)

    def announced(stage: str) -> None:
        waiting.discard(stage)
        if not waiting:
            service.announce()

    async with asyncio.TaskGroup() as both:
        halves = [Half(service, stage, announced, merged, building) for stage in _STAGES]
        both.create_task(talker.service.serve(halves[0], talking))
        both.create_task(vocoder.service.serve(halves[1], vocoding))


def load_settings(environ: Mapping[str, str]) -> tuple[TalkerSettings, VocoderSettings]:
    """Both stages' settings; raises SettingsError."""
    known = TalkerSettings.model_fields.keys() | VocoderSettings.model_fields.keys()
    for name in environ:
        field = name.upper().removeprefix(PREFIX).split("__")[0].lower()
        if name.upper().startswith(PREFIX) and field not in known | set(_STAGES):
            raise SettingsError(f"{name}: no such setting of either stage")
    return _of(TalkerSettings, "talker", environ), _of(VocoderSettings, "vocoder", environ)


def _of(kind: type[Settings], stage: str, environ: Mapping[str, str]) -> Settings:
    """What is common and the stage knows, and above that what is its own."""
    shared, own = {}, {}
    mine = f"{PREFIX}{stage.upper()}__"
    for name, value in environ.items():
        upper = name.upper()
        if upper.startswith(mine):
            own[PREFIX + upper.removeprefix(mine)] = value
        elif upper.removeprefix(PREFIX).split("__")[0].lower() in kind.model_fields:
            shared[upper] = value
    return kind.load({**shared, **own})


def main() -> None:
    try:
        talking, vocoding = load_settings(environment)
    except SettingsError as error:
        print(f"pair: {error}", file=sys.stderr)
        sys.exit(_EXIT_USAGE)
    run_process("pair", talking, lambda service: serve(service, talking, vocoding))


if __name__ == "__main__":
    main()
