"""Stacks of tests' own, and what tests ask of a running one."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.broker import BrokerProgram
from antiphon.stack.checkpoints import Checkpoint
from tests.waits import TIMEOUT_S
from ttscommon.bus.credentials import ACCOUNTS, BROKER, PASSWORD, SYSTEM, issue
from ttscommon.bus.setup import prepare
from ttscommon.process.settings import PREFIX, BusSettings
from ttscommon.process.tasks import stop

JOBS: Final = "/v1/audio/jobs"


@asynccontextmanager
async def logged(
    config: StackConfig, hear: Callable[[str], object] = lambda line: None
) -> AsyncIterator[LocalStack]:
    """A stack whose log pytest shows beside a failure. hear: is told of each line."""
    lines: list[str] = []

    def note(name: str, line: str) -> None:
        lines.append(f"{name}: {line}")
        hear(line)

    async with LocalStack(config, note) as running:
        yield running
    print("\n".join(lines))


def patient(
    store: Path, models: Sequence[Checkpoint], gateway: Mapping[str, str], **environ: Any
) -> StackConfig:
    """Models beside the default voice, on a machine that is slow; small steps warm up shortly."""
    waits = {"ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120", "ANTIPHON_STALL_TIMEOUT_S": "120"}
    waits |= {"ANTIPHON_ADMISSION": "off", **gateway}
    small = {"ANTIPHON_BATCH_STREAMS": "4", "ANTIPHON_BATCH_FRAMES": "32"}
    return StackConfig(
        port=0,
        store=store,
        models=tuple(models),
        environ={"gateway": waits, "vocoder": small, **environ},
        start_timeout_s=300.0,
    )


async def listed(client: httpx.AsyncClient, *names: str) -> None:
    """Wait until these models are served beside the default voice."""
    async with asyncio.timeout(TIMEOUT_S):
        while {one["id"] for one in (await client.get("/v1/models")).json()["data"]} != {
            *("vesper", *names)
        }:
            await asyncio.sleep(0.05)  # gateways look once a second


async def metric(stack: LocalStack, child: str, name: str) -> float:
    """The sum of a metric's samples, as the child's /metrics shows them."""
    url = f"http://127.0.0.1:{stack.children[child].ports['admin']}/metrics"
    async with httpx.AsyncClient(verify=False) as client:
        lines = (await client.get(url)).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def until_metric(
    stack: LocalStack, child: str, name: str, holds: Callable[[float], bool]
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not holds(await metric(stack, child, name)):
            await asyncio.sleep(0.02)


def is_done(card: Mapping[str, Any]) -> bool:
    return bool(card["status"] == "done")


async def job_card(
    http: httpx.AsyncClient,
    job_id: str,
    reached: Callable[[dict[str, Any]], bool] = is_done,
    **options: Any,
) -> dict[str, Any]:
    """A job's card when it has come so far."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            card: dict[str, Any] = (await http.get(f"{JOBS}/{job_id}", **options)).json()
            if reached(card):
                return card
            assert card["status"] != "failed", card
            await asyncio.sleep(0.05)


@asynccontextmanager
async def probed(stand: Any, attack: str) -> AsyncIterator[None]:
    """Ask for the gateway's health, and print how long the longest answer took."""
    worst_s = 0.0

    async def probe() -> None:
        nonlocal worst_s
        while True:
            begun_s = time.monotonic()
            assert (await stand.http.get("/health")).status_code == 200
            worst_s = max(worst_s, time.monotonic() - begun_s)
            await asyncio.sleep(0.02)

    probing = asyncio.create_task(probe())
    try:
        yield
    finally:
        if probing.done():
            probing.result()
        await stop(probing)
        print(f"\n{attack}: worst probe {1000 * worst_s:.0f} ms")


TWO: Final = MappingProxyType({"alice": "", "bob": ""})


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def keys_file(folder: Path, keys: Mapping[str, str] = TWO) -> Path:
    """Every one's key is the name; what each may do, as lines of TOML."""
    path = folder / "keys.toml"
    tables = (f'[keys.{name}]\nsha256 = "{hashed(name)}"\n{may}' for name, may in keys.items())
    path.write_text("\n".join(tables))
    return path


@dataclass(frozen=True)
class GuardedBroker(BrokerProgram):
    """`written`: the accounts in place of one user for all."""

    written: str = ""

    def accounts(self) -> str:
        return self.written


class GuardedStack(LocalStack):
    """`bus_as(role)` is how a role reaches the broker; `secrets` holds everybody's password.

    accounts: makes something else of the broker's accounts.
    """

    def __init__(
        self,
        config: StackConfig,
        secrets: Path,
        models: tuple[str, ...] = ("vesper",),
        accounts: Callable[[str], str] = lambda written: written,
    ) -> None:
        issue(secrets, "antiphon", models)
        services = {role: _user_of(secrets, role) for role in ("gateway", "talker", "vocoder")}
        environ = {role: {**config.environ.get(role, {}), **services[role]} for role in services}
        super().__init__(
            replace(config, environ=environ), lambda name, line: print(f"{name}: {line}")
        )
        self._secrets, self._served, self._changed = secrets, models, accounts

    def bus_as(self, role: str) -> BusSettings:
        """Raises OSError for one that has no password."""
        user = {"user": role, "password": (self._secrets / role / PASSWORD).read_text()}
        return self.bus.model_copy(update=user)

    def _brokers(self, folder: Path) -> list[BrokerProgram]:
        written = self._changed((self._secrets / BROKER / ACCOUNTS).read_text())
        return [
            GuardedBroker(**{**vars(broker), "written": written})
            for broker in super()._brokers(folder)
        ]

    async def _prepare(self) -> None:
        await prepare(self.bus_as("setup"), "migrate", self._served)


def _user_of(secrets: Path, role: str) -> Mapping[str, str]:
    told = {
        "USER": role,
        "PASSWORD": (secrets / role / PASSWORD).read_text(),
        "SYSTEM_PASSWORD": (secrets / "gateway" / SYSTEM).read_text(),
    }
    return {f"{PREFIX}BUS__{name}": value for name, value in told.items()}
