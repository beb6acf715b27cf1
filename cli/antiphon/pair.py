"""`python -m antiphon.pair`: a talker's and a vocoder's engine in one process, to share a GPU.

They share a process, and with it the CUDA context: only so do stream priorities hold between them
(docs/decisions/shared-process.md). What the stages do for the bus, jobs, logs and leases, would
take most of one interpreter, so each has an edge, a process of its own that this one starts and
that ends with it. Each stage is a participant of the bus as ever.

Settings are those of both stages. One that is given as ANTIPHON_X goes to every stage that knows
it, ANTIPHON_TALKER__X and ANTIPHON_VOCODER__X to one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import Pipe
from os import environ as environment
from typing import Any, Final

from prometheus_client import CollectorRegistry

import talker.loading
import vocoder.service
from talker.apart.host import TalkerHost
from talker.settings import TalkerSettings
from ttscommon.engine.apart.host import EngineHost
from ttscommon.engine.interface import Build
from ttscommon.process.admin import Merged
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service, run_process
from ttscommon.process.settings import PREFIX, SettingsError, StageSettings
from ttscommon.process.tasks import stop
from vocoder.apart.host import VocoderHost
from vocoder.settings import VocoderSettings

_EXIT_USAGE: Final = 2
_STAGES: Final = ("talker", "vocoder")
_ENGINE_LIMIT_S: Final = 30.0
_KILL_S: Final = 5.0


class EdgeEnded(Exception):
    """A stage's edge ended by itself; the other cannot go on alone."""


class Half:
    """A stage: its engine in this process, and its edge in another."""

    def __init__(
        self,
        service: Service,
        stage: str,
        model: str,
        host: type[EngineHost[Any]],
        build: Build[Any],
        environ: Mapping[str, str],
    ) -> None:
        """environ: the edge's."""
        self.stage, self.metrics = stage, Metrics(model)
        self._service, self._build, self._environ = service, build, environ
        self._loop = asyncio.get_running_loop()
        here, there = Pipe()
        self._there = there
        service.watch(self._edge, _ENGINE_LIMIT_S)
        self.ready = asyncio.Event()
        self.host = host(here, lambda: self._loop.call_soon_threadsafe(self._alive))
        self.engine: Any = None
        service.ready_unless(lambda: [f"{stage} {problem}" for problem in self.host.problems])

    @property
    def _edge(self) -> str:
        return f"{self.stage} edge"

    async def spawn(self) -> None:
        """Start the edge, which connects to the broker while the engine is made."""
        descriptor = self._there.fileno()
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"{self.stage}.apart.edge", str(descriptor)),
            env=self._environ,
            pass_fds=(descriptor,),
            start_new_session=True,  # a Ctrl-C is for this process, which tells its edges
        )
        self._there.close()

    def build(self) -> None:
        """Make the engine, on a thread."""
        self.engine = self._build(self.metrics, beat=self._beat, died=self._died)

    def start(self) -> None:
        """Have the engine take what the edge brings."""
        self._service.watch(self._engine, _ENGINE_LIMIT_S)
        self.host.serve(self.engine)

    async def ended(self) -> None:
        """Wait for the edge's end; raises EdgeEnded unless this service is stopping."""
        status = await self.process.wait()
        if not self._service.stopping.is_set():
            raise EdgeEnded(f"the {self.stage}'s edge has ended with status {status}")

    async def stop(self) -> None:
        """End the edge, which finishes what is in work, and then the engine."""
        self._service.unwatch(self._edge)
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()

    async def close(self) -> None:
        """Leave nothing behind."""
        self._service.unwatch(self._edge)
        self._service.unwatch(self._engine)
        self.host.close()
        if self.engine is not None:
            await asyncio.to_thread(self.engine.stop)
        if self.process.returncode is None:
            await _end(self.process)

    @property
    def _engine(self) -> str:
        return f"{self.stage} engine"

    def _alive(self) -> None:
        self._service.heartbeat(self._edge)
        if not self.host.problems:
            self.ready.set()

    def _beat(self) -> None:
        self._service.heartbeat(self._engine)
        self.host.beat()

    def _died(self) -> None:
        self.host.died(self.engine.error)
        self._loop.call_soon_threadsafe(self._service.stop)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(_KILL_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def serve(
    service: Service,
    talking: TalkerSettings,
    vocoding: VocoderSettings,
    environ: Mapping[str, str] = environment,
) -> None:
    """Run both stages until the service stops; what ends one ends the other.

    Raises what made it end: VoiceError, EdgeEnded, or what killed an engine.
    """
    # A talker's cache takes most of the memory that is left, so the vocoder is made first.
    halves = [
        Half(
            *(service, "vocoder", vocoding.model, VocoderHost),
            partial(vocoder.service.build_engine, vocoding),
            edge_environ(VocoderSettings, "vocoder", environ),
        ),
        Half(
            *(service, "talker", talking.model, TalkerHost),
            partial(talker.loading.build_engine, talking),
            edge_environ(TalkerSettings, "talker", environ),
        ),
    ]
    service.export(_registry(halves))
    try:
        for half in halves:
            await half.spawn()
        await _until_ended(service, halves)
    finally:
        for half in halves:
            await half.close()
    for half in halves:
        if half.engine.error is not None:
            raise half.engine.error


async def _until_ended(service: Service, halves: Sequence[Half]) -> None:
    """Work until the service stops or an edge ends; raises EdgeEnded for the latter."""
    working = asyncio.create_task(_work(service, halves), name="pair")
    edges = [asyncio.create_task(half.ended(), name=half.stage) for half in halves]
    try:
        await asyncio.wait((working, *edges), return_when=asyncio.FIRST_EXCEPTION)
        for task in (*edges, working):
            if task.done():
                task.result()
    finally:
        await stop(working, *edges)


async def _work(service: Service, halves: Sequence[Half]) -> None:
    for half in halves:
        half.metrics.startup.imported()
        await asyncio.to_thread(half.build)
    # Neither works while the other records its graphs.
    for half in halves:
        half.start()
    for half in halves:
        await half.ready.wait()
        half.metrics.startup.finish(half.stage)
    service.announce()
    await service.stopping.wait()
    await asyncio.gather(*(half.stop() for half in halves))


def _registry(halves: Sequence[Half]) -> CollectorRegistry:
    merged, registry = Merged(), CollectorRegistry()
    merged.registries += [half.metrics.registry for half in halves]
    merged.elsewhere += [half.host.metrics for half in halves]
    registry.register(merged)
    return registry


def load_settings(environ: Mapping[str, str]) -> tuple[TalkerSettings, VocoderSettings]:
    """Both stages' settings; raises SettingsError."""
    known = TalkerSettings.model_fields.keys() | VocoderSettings.model_fields.keys()
    for name in environ:
        field = name.upper().removeprefix(PREFIX).split("__")[0].lower()
        if name.upper().startswith(PREFIX) and field not in known | set(_STAGES):
            raise SettingsError(f"{name}: no such setting of either stage")
    return (
        TalkerSettings.load(_of(TalkerSettings, "talker", environ)),
        VocoderSettings.load(_of(VocoderSettings, "vocoder", environ)),
    )


def edge_environ(
    kind: type[StageSettings], stage: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """What an edge runs with: its stage's settings, and probes that only this process asks for."""
    others = {n: value for n, value in environ.items() if not n.upper().startswith(PREFIX)}
    own = _of(kind, stage, environ)
    own.pop(f"{PREFIX}PORT_FILE", None)
    probes = {f"{PREFIX}ADMIN_HOST": "127.0.0.1", f"{PREFIX}ADMIN_PORT": "0"}
    return {**others, **own, **probes}


def _of(kind: type[StageSettings], stage: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What is common and the stage knows, and above that what is its own."""
    shared, own = {}, {}
    mine = f"{PREFIX}{stage.upper()}__"
    for name, value in environ.items():
        upper = name.upper()
        if upper.startswith(mine):
            own[PREFIX + upper.removeprefix(mine)] = value
        elif upper.startswith(PREFIX) and _field(upper) in kind.model_fields:
            shared[upper] = value
    return {**shared, **own}


def _field(name: str) -> str:
    return name.removeprefix(PREFIX).split("__")[0].lower()


def main() -> None:
    try:
        talking, vocoding = load_settings(environment)
    except SettingsError as error:
        print(f"pair: {error}", file=sys.stderr)
        sys.exit(_EXIT_USAGE)
    run_process("pair", talking, lambda service: serve(service, talking, vocoding))


if __name__ == "__main__":
    main()
