"""The stack under attack: two of everything, each behind a proxy of its own if need be."""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import RestartPolicy
from antiphon.stack.local import ServiceProgram
from tests.chaos.command import fake
from tests.chaos.proxy import Proxy, Upstreams
from ttscommon.bus import Bus
from ttscommon.process.settings import BusSettings

BROKER_AWAY_S = 0.5
_SECRETS = ("password", "system_password")
# Twice to four times as fast as speech: slow enough that a fault finds something to disturb.
TALKER_CURVE = {"base_s": 0.010, "stream_s": 0.0002, "prefill_s": 0.003}
# For speeches of ten minutes.
SWIFT_CURVE = {**TALKER_CURVE, "base_s": 0.001}


class ChaosStack(LocalStack):
    """A LocalStack whose processes can be killed, stopped, terminated and cut off by name.

    `url` is a front door that leads to any living gateway. With `proxied` every service reaches
    the broker through `proxies[name]`, or each of three brokers through `proxies[its name]`. With
    `poisonous` some texts kill talkers. With `rotating` passwords stand in files, and can change.
    """

    def __init__(
        self,
        config: StackConfig,
        on_line: Callable[[str, str], None],
        *,
        gateways: int = 1,
        proxied: bool = False,
        poisonous: bool = False,
        rotating: bool = False,
    ) -> None:
        super().__init__(config, on_line)
        self.proxies: dict[str, Proxy] = {}
        self._gateways = gateways
        self._proxied = proxied
        self._talker = "tests.chaos.poisoned_talker" if poisonous else "talker"
        self._doors = AsyncExitStack()
        self._passwords: dict[str, Path] = {}
        if rotating:
            assert config.store is not None
            self._store = config.store
            self._passwords = {name: self._store / name for name in _SECRETS}

    @property
    def bus(self) -> BusSettings:
        files = {f"{name}_file": path for name, path in self._passwords.items()}
        return super().bus.model_copy(update={**dict.fromkeys(self._passwords), **files})

    @property
    def broker_store(self) -> Path:
        """What the only broker keeps."""
        assert self.config.store is not None
        return self.config.store / "broker" / "jetstream"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._front.port}"

    async def start(self) -> None:
        for name, path in self._passwords.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(getattr(self._credentials, name))
        self._front = await self._doors.enter_async_context(Proxy(self._living_gateways))
        if self._proxied:
            for name, upstreams in self._proxied_names().items():
                proxy = await self._doors.enter_async_context(Proxy(upstreams))
                self.proxies[name] = proxy
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self._doors.aclose()

    def names(self, stage: str) -> list[str]:
        """The processes of a stage."""
        return [name for name in self.children if name.split("-")[0] == stage]

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process, if it lives."""
        pid = self.children[name].pid
        if pid is not None:
            os.kill(pid, number)

    def rotate_passwords(self) -> str:
        """Change all users' passwords, in their files and at the brokers; returns one that was."""
        for path in self._passwords.values():
            old, new = path.read_text(), secrets.token_urlsafe(24)
            path.write_text(new)
            for configuration in self._store.rglob("nats.conf"):
                text = configuration.read_text()
                configuration.write_text(text.replace(json.dumps(old), json.dumps(new)))
        for name in self.names("broker"):
            self.send(name, signal.SIGHUP)
        return old

    @asynccontextmanager
    async def restarted(self, *names: str, within_s: float = 60.0) -> AsyncIterator[None]:
        """What ends these processes is done within; waits until each runs again."""
        victims = [(child := self.children[name], child.starts) for name in names]
        yield
        async with asyncio.timeout(within_s):
            for child, starts in victims:
                while child.starts <= starts or not child.ready.is_set():
                    await asyncio.sleep(0.02)

    async def crash(self, *names: str, within_s: float = 60.0) -> None:
        """kill -9 them at once; each is back half a second later."""
        async with self.restarted(*names, within_s=within_s):
            for name in names:
                self.children[name].kill()

    async def whole(self) -> None:
        """Wait until every process is ready."""
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.ready.wait() for each in self.children.values()))

    def _living_gateways(self) -> list[int]:
        living = [self.children[name] for name in self.names("gateway")]
        return [c.ports["http"] for c in living if c.ready.is_set() and c.pid is not None]

    def _proxied_names(self) -> dict[str, Upstreams]:
        config = self.config
        if config.brokers > 1:
            names = [f"broker-{n}" for n in range(1, config.brokers + 1)]
            return {name: partial(self._ports_of, name) for name in names}
        services = [
            *("gateway" if n == 1 else f"gateway-{n}" for n in range(1, self._gateways + 1)),
            *(f"talker-{n}" for n in range(1, config.talkers + 1)),
            *(f"vocoder-{n}" for n in range(1, config.vocoders + 1)),
        ]
        return dict.fromkeys(services, partial(self._ports_of, "broker"))

    def _ports_of(self, broker: str) -> list[int]:
        ports = self.children[broker].ports if broker in self.children else {}
        return [ports["nats"]] if "nats" in ports else []

    def _services(self, folder: Path) -> list[ServiceProgram]:
        programs = super()._services(folder)
        first = next(program for program in programs if program.module == "gateway")
        programs += [replace(first, name=f"gateway-{n}") for n in range(2, self._gateways + 1)]
        return [self._behind_proxy(program) for program in programs]

    def _behind_proxy(self, program: ServiceProgram) -> ServiceProgram:
        if program.module == "talker":
            program = replace(program, module=self._talker)
        own = self.proxies.get(program.name)
        proxies = self.proxies.values() if own is None else [own]
        if not proxies:
            return program
        urls = ",".join(f"nats://127.0.0.1:{proxy.port}" for proxy in proxies)
        return replace(program, environ={**program.environ, "ANTIPHON_BUS__URLS": urls})


def unheard(name: str, line: str) -> None:
    """What a process says is of no interest."""


def chaos_stack(
    folder: Path,
    on_line: Callable[[str, str], None] = unheard,
    *,
    engine: str = "fake",
    brokers: int = 1,
    max_log_bytes: int | None = None,
    gateway: dict[str, str] | None = None,
    talker_curve: Mapping[str, float] = TALKER_CURVE,
    vocoder_curve: Mapping[str, float] | None = None,
    talkers: int = 2,
    vocoders: int = 2,
    **own: Any,
) -> ChaosStack:
    """A stack under attack. The curves are the step times of fake engines; a vocoder without one
    has its own. `own`: see ChaosStack.
    """
    folder.mkdir(parents=True, exist_ok=True)
    curves = {"talker": talker_curve, "vocoder": vocoder_curve} if engine == "fake" else {}
    fields: dict[str, Any] = {"engine": engine, "brokers": brokers}
    config = StackConfig(
        port=0,
        talkers=talkers,
        vocoders=vocoders,
        store=folder / "store",
        max_log_bytes=max_log_bytes,
        # What died is away for so long, every time.
        restarts=RestartPolicy(BROKER_AWAY_S, stable_life_s=0.0),
        environ={
            # Logs are compared and counted when everything has settled.
            "gateway": {"ANTIPHON_KEEP_LOGS_S": "3600", **(gateway or {})},
            **fake(folder, curves),
        },
        **fields,
    )
    return ChaosStack(config, on_line, **own)


@asynccontextmanager
async def connected(settings: BusSettings) -> AsyncIterator[Bus]:
    """A connection to a stack's brokers."""
    bus = await Bus.connect(settings, "chaos")
    try:
        yield bus
    finally:
        await bus.close()


@asynccontextmanager
async def running(stack: ChaosStack) -> AsyncIterator[Bus]:
    """The stack runs meanwhile; yields a connection to its brokers."""
    async with stack, connected(stack.bus) as bus:
        yield bus
