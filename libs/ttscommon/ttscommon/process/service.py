"""The life of a service process: start, ready, drain, stop; with probes and a watchdog."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

import structlog
import uvloop
from prometheus_client import CollectorRegistry

from ttscommon.process import tracing
from ttscommon.process.admin import AdminServer, Health
from ttscommon.process.settings import ServiceSettings, SettingsError
from ttscommon.process.tasks import stop_everything
from ttscommon.wire.errors import VoiceError

DEFAULT_HEARTBEAT_LIMIT_S: Final = 10.0

_EXIT_OK: Final = 0
_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2

_LEAVE_S: Final = 5.0

log_ = structlog.get_logger(__name__)

Main = Callable[["Service"], Coroutine[Any, Any, None]]
S = TypeVar("S", bound=ServiceSettings)


@dataclass
class LoopWatch:
    """A loop that has to turn. limit_s: how long a turn may take until /livez is red. last_s: when
    the present one began. longest_s: of those before.
    """

    limit_s: float
    last_s: float
    longest_s: float = 0.0

    @property
    def turning_s(self) -> float:
        """How long the present turn has taken so far."""
        return time.monotonic() - self.last_s

    @property
    def hangs(self) -> bool:
        """Whether that is much longer than turns of this loop take: they differ with the model."""
        return self.turning_s > max(DEFAULT_HEARTBEAT_LIMIT_S, 2.0 * self.longest_s)


class Service:
    """One service process.

    `main(service)` builds everything, calls `announce` when it can take work, waits for
    `stopping`, finishes what is in work and returns. After `drain_s`, or at a second signal, it
    is cancelled.

        def main() -> None:
            launch("talker", TalkerSettings, serve)

        async def serve(service: Service, settings: TalkerSettings) -> None: ...
    """

    def __init__(self, name: str, settings: ServiceSettings) -> None:
        self.name = name
        self.settings = settings
        self.stopping = asyncio.Event()
        self.ports: dict[str, int] = {}
        # Models that it does without, and why.
        self.left_out: dict[str, str] = {}
        self._announced = False
        self._watches: dict[str, LoopWatch] = {}
        self._conditions: dict[str, Callable[[], bool]] = {}
        self._problems: list[Callable[[], Iterable[str]]] = []
        self._admin = AdminServer(self.live, self.ready)
        self._main: asyncio.Task[None] | None = None

    def export(self, metrics: CollectorRegistry) -> None:
        """Serve these metrics from now on."""
        self._admin.registry = metrics

    def watch(self, name: str, limit_s: float = DEFAULT_HEARTBEAT_LIMIT_S) -> LoopWatch:
        """From now on /livez is red whenever `heartbeat(name)` was not called for `limit_s`."""
        self._watches[name] = LoopWatch(limit_s, time.monotonic())
        return self._watches[name]

    def unwatch(self, name: str) -> None:
        """The loop called `name` ends on purpose."""
        self._watches.pop(name, None)

    def heartbeat(self, name: str) -> None:
        """The loop called `name` is alive. Cheap, and safe to call from any thread."""
        watch = self._watches.get(name)
        if watch is not None:
            now = time.monotonic()
            watch.longest_s = max(watch.longest_s, now - watch.last_s)
            watch.last_s = now

    def ready_when(self, name: str, condition: Callable[[], bool]) -> None:
        """/readyz is red, naming `name`, while `condition()` is false."""
        self._conditions[name] = condition

    def ready_unless(self, problems: Callable[[], Iterable[str]]) -> None:
        """/readyz is red while there are any, and names them."""
        self._problems.append(problems)

    def announce(self, **ports: int) -> None:
        """The service takes work now: log the bound ports, write the port file, turn ready."""
        _calm_collector()
        self.ports.update(ports)
        self._announced = True
        log_.info("service.ready", pid=os.getpid(), **self.ports)
        self._write_port_file()

    def live(self) -> Health:
        """Whether every watched loop turned lately."""
        return Health(
            tuple(
                f"{name} stalled for {watch.turning_s:.1f} s"
                for name, watch in self._watches.items()
                if watch.turning_s > watch.limit_s
            )
        )

    def ready(self) -> Health:
        """Whether new work may be sent here."""
        problems = [name for name, holds in self._conditions.items() if not holds()]
        problems += [problem for tell in self._problems for problem in tell()]
        if not self._announced:
            problems.append("starting")
        if self.stopping.is_set():
            problems.append("draining")
        return Health((*problems, *self.live().problems))

    def stop(self) -> None:
        """Ask `main` to finish, as SIGTERM does; a second call cuts it short."""
        if not self.stopping.is_set():
            log_.info("service.draining", drain_s=self.settings.drain_s)
            self.stopping.set()
        elif self._main is not None:
            log_.warning("service.cut_short")
            self._main.cancel()

    async def run(self, main: Main) -> int:
        """Run `main` under signals and probes; returns the process's exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            host, port = self.settings.admin_host, self.settings.admin_port
            self.ports["admin"] = await self._admin.start(host, port)
            return await self._until_drained(main)
        except OSError as error:
            log_.error("service.cannot_listen", error=str(error))
            return _EXIT_FAILED
        finally:
            await self._admin.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _until_drained(self, main: Main) -> int:
        self._main = asyncio.create_task(main(self), name=f"{self.name}.main")
        stopping = asyncio.create_task(self.stopping.wait())
        await asyncio.wait((self._main, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        # Who has taken no work yet has none to finish, and may be waiting for a broker for ever.
        if not self._main.done() and self._announced:
            await asyncio.wait((self._main,), timeout=self.settings.drain_s)
            if not self._main.done():
                log_.warning("service.drain_timed_out", drain_s=self.settings.drain_s)
        if not self._main.done():
            self._main.cancel()
            await asyncio.wait((self._main,))
        return self._outcome(self._main)

    def _outcome(self, main: asyncio.Task[None]) -> int:
        if main.cancelled() and self._announced:
            log_.warning("service.stopped", drained=False)
            return _EXIT_FAILED
        error = None if main.cancelled() else main.exception()
        if isinstance(error, VoiceError):
            # Of its files, which another start would find as they are.
            log_.error("service.failed", error=str(error))
            return _EXIT_USAGE
        if error is not None:
            log_.error("service.failed", error=str(error), exc_info=error)
            return _EXIT_FAILED
        log_.info("service.stopped", drained=True)
        return _EXIT_OK

    def _write_port_file(self) -> None:
        path = self.settings.port_file
        if path is None:
            return
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        told = {"left_out": self.left_out} if self.left_out else {}
        draft.write_text(json.dumps({**self.ports, **told}))
        draft.replace(path)


def _calm_collector() -> None:
    """Full collections stop every stream at once, for longer than a first chunk lasts.

    What was built to take work stays for good, so it is never looked through again; and because
    streams leave no circles of references behind, the rest is looked through ten times more seldom.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 100)


def launch(
    name: str, settings_type: type[S], main: Callable[[Service, S], Coroutine[Any, Any, None]]
) -> NoReturn:
    """The whole `__main__` of a service: settings from the environment, logs, loop, exit status."""
    try:
        settings = settings_type.load()
    except SettingsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(_EXIT_USAGE)
    run_process(name, settings, lambda service: main(service, settings))


def run_process(name: str, settings: ServiceSettings, main: Main) -> NoReturn:
    """Logs, loop and exit status of a service process whose settings are known."""
    tracing.configure_logs(name, level=settings.log_level, format=settings.log_format)

    flush = tracing.configure_traces(name, settings.tracing)

    async def body() -> int:
        status = await Service(name, settings).run(main)
        # The loop's own ending cancels every task once and waits for ever for one that missed it,
        # and a process that does not end is not replaced.
        if stuck := await stop_everything(_LEAVE_S):
            log_.error("service.stuck", tasks=stuck)
            sys.stdout.flush()
            flush()
            os._exit(status)
        return status

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        status = runner.run(body())
    flush()
    sys.exit(status)
