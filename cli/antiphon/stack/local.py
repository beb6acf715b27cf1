"""Broker, gateway, talkers and vocoders on this machine, started in order and kept alive."""

from __future__ import annotations

import asyncio
import fcntl
import json
import secrets
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

import structlog

from antiphon.stack.broker import BrokerProgram, Credentials
from antiphon.stack.checkpoints import (
    Checkpoint,
    StageProgram,
    of_stage,
    pairs_of,
    programs_of,
    speaking,
)
from antiphon.stack.child import Child, ChildFailed, Command, Ports, RestartPolicy
from antiphon.stack.voices import VoiceMissing, default_voice
from ttscommon.bus.setup import prepare
from ttscommon.process.settings import PREFIX, BusSettings
from ttscommon.wire.errors import AntiphonError

Engine = Literal["torch", "fake"]
LogLevel = Literal["debug", "info", "warning", "error"]

_GATEWAY: Final = "gateway"
# A talker and a vocoder in one process.
_PAIR: Final = "antiphon.pair"

_PINNED: Final = {"http": "PORT", "admin": "ADMIN_PORT", "wyoming": "WYOMING_PORT"}

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}

# One process of an engine uses one core; more threads would only make the streams of one
# process slower whenever another process wants the same core.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# From SIGTERM to SIGKILL.
_GRACE_S: Final = 5.0

log_ = structlog.get_logger(__name__)


class StackFailed(Exception):
    """The stack cannot run; the text is for the person who started it."""


class NotReady(StackFailed):
    """Processes that did not become ready in time; others may have."""


@dataclass(frozen=True)
class StackConfig:
    """What to run. A port of 0 takes a free one; `store` None is a folder that ends with us.

    With no gateway, talkers or vocoders it is a broker alone. Gateways beyond the first have
    ports of their own, which their `service.ready` tells.
    `models`: published checkpoints, served next to the default voice. `left_out`: those that
    cannot be, and why.
    `models_per_worker`: so many small ones share a talker's and a vocoder's process.
    `pair`: a model has as many processes as there are talkers, each of them a talker and a
    vocoder, for stages that share a GPU.
    `voice_dir`: None is the default voice that is installed.
    `environ` holds further settings per stage ("gateway", "talker", "vocoder").
    """

    host: str = "127.0.0.1"
    port: int = 8000
    broker_port: int = 0
    brokers: Literal[1, 3] = 1
    gateways: int = 1
    talkers: int = 1
    vocoders: int = 1
    pair: bool = False
    engine: Engine = "torch"
    device: str = "cpu"
    voice_dir: Path | None = None
    models: tuple[Checkpoint, ...] = ()
    models_per_worker: int = 1
    left_out: Mapping[str, str] = field(default_factory=dict)
    log_level: LogLevel = "info"
    store: Path | None = None
    max_log_bytes: int | None = None
    slots: int | None = None
    start_timeout_s: float = 120.0
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    environ: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pair and self.talkers != self.vocoders:
            raise ValueError("pairs have as many talkers as vocoders")


@dataclass(frozen=True)
class ServiceProgram:
    """`python -m <module>` with settings in the environment and ports in a file.

    models: the checkpoints that it works for, if it works for nothing else.
    """

    name: str
    module: str
    folder: Path
    environ: Mapping[str, str]
    models: tuple[str, ...] = ()

    @property
    def _port_file(self) -> Path:
        return self.folder / f"{self.name}.json"

    def command(self, ports: Ports) -> Command:
        """A restart binds the ports of the life before, so that clients find it again."""
        self._port_file.unlink(missing_ok=True)
        pinned = {PREFIX + _PINNED[name]: str(port) for name, port in ports.items()}
        environ = {**self.environ, **pinned, f"{PREFIX}PORT_FILE": str(self._port_file)}
        return Command((sys.executable, "-m", self.module), environ)

    def bound(self, pid: int) -> Ports | None:
        """The service writes its port file when it takes work."""
        try:
            ports = json.loads(self._port_file.read_text())
        except (OSError, ValueError):
            return None
        return {name: int(port) for name, port in ports.items() if name in _PINNED}

    def left_out(self) -> dict[str, str]:
        """Models that it took up its work without, and why."""
        try:
            left_out = json.loads(self._port_file.read_text()).get("left_out", {})
        except (OSError, ValueError):
            return {}
        return {str(name): str(reason) for name, reason in left_out.items()}


class LocalStack:
    """The whole stack as an async context manager: inside, it is ready; after, nothing is left."""

    def __init__(
        self, config: StackConfig, on_line: Callable[[str, str], None] = lambda name, line: None
    ) -> None:
        self.config = config
        self.children: dict[str, Child] = {}
        self._left_out = dict(config.left_out)
        self._models: dict[str, tuple[str, ...]] = {}
        self._programs: list[ServiceProgram] = []
        self._credentials = Credentials()
        self._resume_secret = secrets.token_urlsafe(32)
        self._on_line = on_line
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._cleanup = ExitStack()

    @property
    def bus(self) -> BusSettings:
        """How to reach the broker of this stack."""
        ports = [child.ports["nats"] for name, child in self.children.items() if _is_broker(name)]
        return BusSettings(
            urls=tuple(f"nats://127.0.0.1:{port}" for port in ports),
            user=self._credentials.user,
            password=self._credentials.password,
            system_user=self._credentials.system_user,
            system_password=self._credentials.system_password,
            replicas=self.config.brokers,
            max_log_bytes=self.config.max_log_bytes,
            slots=self.config.slots,
        )

    @property
    def url(self) -> str:
        """Where the gateway is found from this machine, e.g. http://127.0.0.1:8000."""
        return address(self.config.host, self.children["gateway"].ports["http"])

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the brokers, then all services at once; raises StackFailed."""
        if self.config.port and self.config.gateways:
            _require_free(self.config.host, self.config.port)
        folder = self._folder()
        for broker in self._brokers(folder):
            self._spawn(Child(broker, self._on_line, self.config.restarts))
        await self._until_ready(list(self.children.values()))
        if self._serves:
            await self._prepare()
        programs = self._services(folder)
        self._models = {program.name: program.models for program in programs if program.models}
        self._programs = programs
        services = [self._child(program) for program in programs]
        for child in services:
            self._spawn(child)
        try:
            await self._until_ready(services)
        except NotReady as late:
            if not self.serving:
                raise
            log_.warning("models.late", error=str(late))

    @property
    def _serves(self) -> bool:
        """Whether there is more to run than a broker."""
        return bool(self.config.gateways or self.config.talkers or self.config.vocoders)

    async def _prepare(self) -> None:
        preparing = asyncio.create_task(prepare(self.bus, "migrate"))
        await self._guard(preparing)
        try:
            preparing.result()
        except AntiphonError as error:
            raise StackFailed(error.message) from error

    async def wait(self) -> None:
        """Run until a child cannot be kept alive; raises StackFailed then."""
        late = [self.children[name] for name in self.waiting]
        await self._guard(asyncio.gather(asyncio.Event().wait(), *map(_report_when_ready, late)))

    async def stop(self) -> None:
        """Stop in the order in which work flows, so that what is in work can finish."""
        for stage in (("gateway",), ("talker", "vocoder", "pair"), ("broker",)):
            stopping = [c for n, c in self.children.items() if n.split("-")[0] in stage]
            await asyncio.gather(*(child.stop(_GRACE_S) for child in stopping))
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._cleanup.close()

    @property
    def serving(self) -> list[str]:
        """Models that speak already: a gateway and a process of each stage are ready."""
        ready = {name for name, child in self.children.items() if child.ready.is_set()}
        spoken, left_out = speaking(ready, self._models), self.left_out
        return [model for model in spoken if model not in left_out]

    @property
    def left_out(self) -> dict[str, str]:
        """Models that are not served, and why: the others do without them."""
        found = dict(self._left_out)
        for program in self._programs:
            if self.children[program.name].ready.is_set():
                found |= {k: v for k, v in program.left_out().items() if k not in found}
        return found

    @property
    def late(self) -> list[str]:
        """Models that are neither served nor left out yet."""
        known = {one.name for one in self.config.models}
        return sorted(known - self.left_out.keys() - set(self.serving))

    @property
    def waiting(self) -> list[str]:
        """Names of the processes that have not become ready yet."""
        return [name for name in self.children if not self._settled(name)]

    def _settled(self, name: str) -> bool:
        """Whether it is ready, or works for nothing but models that are left out."""
        return self.children[name].ready.is_set() or self._needless(name)

    def _needless(self, name: str) -> bool:
        models = self._models.get(name, ())
        return bool(models) and all(model in self.left_out for model in models)

    def kill(self) -> None:
        """End every process at once, for a person who does not want to wait."""
        for child in self.children.values():
            child.kill()

    def _folder(self) -> Path:
        if self.config.store is not None:
            folder = self.config.store.resolve()
            folder.mkdir(parents=True, exist_ok=True)
            self._cleanup.enter_context(_sole_use(folder))
            return folder
        folder = Path(tempfile.mkdtemp(prefix="antiphon-"))
        self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _brokers(self, folder: Path) -> list[BrokerProgram]:
        count = self.config.brokers
        if count == 1:
            port = self.config.broker_port
            return [BrokerProgram("broker", folder / "broker", self._credentials, port)]
        routes = _free_ports(count)
        return [
            BrokerProgram(
                name=f"broker-{number}",
                folder=folder / f"broker-{number}",
                credentials=self._credentials,
                port=self.config.broker_port and self.config.broker_port + number - 1,
                route_port=route,
                routes=routes,
            )
            for number, route in enumerate(routes, start=1)
        ]

    def _services(self, folder: Path) -> list[ServiceProgram]:
        config = self.config
        gateway = {
            f"{PREFIX}HOST": config.host,
            f"{PREFIX}PORT": str(config.port),
        }
        if f"{PREFIX}RESUME_SECRET_FILE" not in config.environ.get("gateway", {}):
            gateway[f"{PREFIX}RESUME_SECRET"] = self._resume_secret
        engine = {
            f"{PREFIX}ENGINE": config.engine,
            f"{PREFIX}DEVICE": config.device,
            **_ONE_THREAD,
        }
        if config.engine == "torch":
            engine[f"{PREFIX}VOICE_DIR"] = str(self._voice_dir())
        programs = self._gateway_programs(folder, gateway)
        counts = {"talker": config.talkers, "vocoder": config.vocoders, "pair": config.talkers}
        if config.pair:
            own = {**engine, **self._of_stages()}
            names = [f"pair-{number}" for number in range(1, config.talkers + 1)]
            programs += [self._service(_PAIR, name, folder, own) for name in names]
        for stage in () if config.pair else ("talker", "vocoder"):
            names = [f"{stage}-{number}" for number in range(1, counts[stage] + 1)]
            programs += [self._service(stage, name, folder, engine) for name in names]
        for program in self._programs_of_models():
            names = [f"{program.name}-{n}" for n in range(1, counts[program.stage] + 1)]
            environ = {**engine, **program.environ}
            if program.stage != "vocoder":
                environ[f"{PREFIX}LEXICON_DIR"] = engine[f"{PREFIX}VOICE_DIR"]
            module = _PAIR if program.stage == "pair" else program.stage
            if program.stage == "pair":
                environ |= self._of_stages()
            mine = [self._service(module, name, folder, environ) for name in names]
            programs += [replace(one, models=program.models) for one in mine]
        return _sharing(programs)

    def _programs_of_models(self) -> list[StageProgram]:
        config = self.config
        if config.pair:
            return pairs_of(config.models)
        return programs_of(config.models, config.models_per_worker, config.device)

    def _voice_dir(self) -> Path:
        """Raises StackFailed."""
        if self.config.voice_dir is not None:
            return self.config.voice_dir
        try:
            return default_voice()
        except VoiceMissing as error:
            raise StackFailed(str(error)) from error

    def _gateway_programs(self, folder: Path, environ: Mapping[str, str]) -> list[ServiceProgram]:
        """The first at the port that was asked for, the others at free ones."""
        names = ["gateway", *(f"gateway-{n}" for n in range(2, self.config.gateways + 1))]
        free = {**environ, f"{PREFIX}PORT": "0"}
        told = [environ, *[free] * (len(names) - 1)]
        programs = [
            self._service(_GATEWAY, name, folder, own)
            for name, own in zip(names, told, strict=True)
        ]
        return programs[: self.config.gateways]

    def _of_stages(self) -> dict[str, str]:
        """Settings of one stage as a pair reads them."""
        found = dict[str, str]()
        for stage in ("talker", "vocoder"):
            found |= of_stage(stage, self.config.environ.get(stage, {}))
        return found

    def _service(
        self, stage: str, name: str, folder: Path, environ: Mapping[str, str]
    ) -> ServiceProgram:
        common = {
            f"{PREFIX}LOG_LEVEL": self.config.log_level,
            f"{PREFIX}LOG_FORMAT": "json",
            "PYTHONUNBUFFERED": "1",
        }
        own = self.config.environ.get(stage, {})
        every = {**common, **bus_environ(self.bus), **environ, **own}
        return ServiceProgram(name, stage, folder, every)

    def _child(self, program: ServiceProgram) -> Child:
        """Jobs of a worker that hangs go on elsewhere; clients of a gateway have no second door."""
        answers = program.module == _GATEWAY
        return Child(program, self._on_line, self.config.restarts, answers=answers)

    def _spawn(self, child: Child) -> None:
        self.children[child.name] = child
        self._tasks[child.name] = asyncio.create_task(child.supervise(), name=child.name)

    async def _until_ready(self, children: list[Child]) -> None:
        everyone = asyncio.gather(*(self._until_settled(child) for child in children))
        try:
            async with asyncio.timeout(self.config.start_timeout_s):
                await self._guard(everyone)
        except TimeoutError as error:
            late = ", ".join(child.name for child in children if not self._settled(child.name))
            raise NotReady(
                f"not ready after {self.config.start_timeout_s:.0f} s: {late}"
            ) from error

    async def _until_settled(self, child: Child) -> None:
        """Until it is ready, or its supervision has ended: `_guard` says whether that matters."""
        ready = asyncio.ensure_future(child.ready.wait())
        try:
            await asyncio.wait(
                (ready, self._tasks[child.name]), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ready.cancel()

    async def _guard(self, work: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
        """Wait for `work`, or fail with the first child whose supervision ends in failure.

        One that works for checkpoints alone takes them out of service, and nothing else.
        """
        waiting = asyncio.ensure_future(work)
        try:
            while not waiting.done():
                watched = [
                    t for n, t in self._tasks.items() if not (t.done() and self._needless(n))
                ]
                await asyncio.wait((waiting, *watched), return_when=asyncio.FIRST_COMPLETED)
                ended = [task for task in watched if task.done() and not task.cancelled()]
                for task in ended:
                    await self._judge(task.get_name(), task.exception())
                if any(not self._needless(task.get_name()) for task in ended):
                    return
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _judge(self, name: str, error: BaseException | None) -> None:
        """What the end of a supervision means for the stack; raises StackFailed."""
        if error is None:
            return
        models = self._models.get(name, ())
        if not models or not isinstance(error, ChildFailed):
            raise StackFailed(_explain(error)) from error
        for model in models:
            self._left_out.setdefault(model, error.reason)
            log_.error("model.left_out", model=model, error=error.reason)
        needless = [child for n, child in self.children.items() if self._needless(n)]
        await asyncio.gather(*(child.stop(_GRACE_S) for child in needless))


async def _report_when_ready(child: Child) -> None:
    await child.ready.wait()
    log_.info("child.ready", child=child.name)


def _sharing(programs: Sequence[ServiceProgram]) -> list[ServiceProgram]:
    """Tell talkers how many engines' processes share their GPU: a cache takes its part."""
    devices = [_device(program.environ) for program in programs]
    counts = Counter(devices)
    return [
        replace(one, environ={f"{PREFIX}DEVICE_SHARERS": str(counts[device]), **one.environ})
        if device is not None and one.module in ("talker", _PAIR)
        else one
        for one, device in zip(programs, devices, strict=True)
    ]


def _device(environ: Mapping[str, str]) -> str | None:
    """A GPU by its number; None for a CPU, and for what computes nothing."""
    names = (f"{PREFIX}TALKER__DEVICE", f"{PREFIX}DEVICE")
    found = next((environ[name] for name in names if name in environ), "cpu")
    return None if found == "cpu" else f"cuda:{found.partition(':')[2] or 0}"


def address(host: str, port: int) -> str:
    """An address that opens: nothing can be reached at the one that stands for all."""
    host = _LOOPBACK.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_broker(name: str) -> bool:
    return name.split("-")[0] == "broker"


def bus_environ(bus: BusSettings) -> dict[str, str]:
    """The settings of a service that reach this broker."""
    values = {**bus.model_dump(exclude_defaults=True), "urls": ",".join(bus.urls)}
    return {f"{PREFIX}BUS__{name.upper()}": str(value) for name, value in values.items()}


def _explain(error: BaseException) -> str:
    if isinstance(error, ChildFailed):
        return "\n".join([*(f"  {line}" for line in error.tail), f"{error}: {error.reason}"])
    return str(error) or type(error).__name__


@contextmanager
def _sole_use(folder: Path) -> Iterator[None]:
    """Two brokers over one store would ruin it; raises StackFailed."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StackFailed(f"{folder} is in use by another stack") from error
        yield


def _require_free(host: str, port: int) -> None:
    """Say in words that a port is taken, before anything is started."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = "choose another with --port, or 0 for a free one"
            reason = f"cannot listen on {host}:{port}: {error.strerror}; {hint}"
            raise StackFailed(reason) from error


def _free_ports(count: int) -> tuple[int, ...]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
