"""Fixtures for everybody: a real broker and a whole stack, the worker's or a test's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import nats
import pytest
from hypothesis import HealthCheck, settings

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.broker import BrokerProgram, Credentials
from tests.waits import PATIENCE_S
from ttscommon.process.settings import BusSettings

# Kernels run in Triton's interpreter, which has to be chosen before any test imports Triton.
os.environ.setdefault("TRITON_INTERPRET", "1")

# A machine that is busy with something else fails no test.
settings.register_profile("antiphon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("antiphon")

_PREFIXES = (f"test{number}" for number in count())


@dataclass(frozen=True)
class Broker:
    """How to reach the worker's broker, below a prefix that no other test has."""

    bus: BusSettings


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    """The worker's broker, which no test may stop."""
    credentials, folder = Credentials(), tmp_path_factory.mktemp("broker")
    program = BrokerProgram("broker", folder, credentials)
    command = program.command({})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command.argv, env={**os.environ, **command.environ}, stdout=log, stderr=log
        )
    until_s = time.monotonic() + PATIENCE_S
    while (ports := program.bound(process.pid)) is None and time.monotonic() < until_s:
        time.sleep(0.01)
    assert ports is not None, (folder / "log").read_text()
    yield BusSettings(
        urls=(f"nats://127.0.0.1:{ports['nats']}",),
        user=credentials.user,
        password=credentials.password,
        system_user=credentials.system_user,
        system_password=credentials.system_password,
        replicas=1,
    )
    process.kill()
    process.wait()


@pytest.fixture
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Broker | LocalStack]:
    """`broker.bus` are BusSettings of the worker's broker, with a prefix of the test's own.

    A test that is marked `own_broker` has one for itself: `broker.children["broker"].kill()` kills
    it, and it comes back at the same port.
    """
    if request.node.get_closest_marker("own_broker"):
        config = StackConfig(gateways=0, talkers=0, vocoders=0, store=tmp_path / "store")
        async with LocalStack(config) as running:
            yield running
        return
    shared: BusSettings = request.getfixturevalue("shared_broker")
    yield Broker(own := shared.model_copy(update={"prefix": next(_PREFIXES)}))
    await _forget(own)


async def _forget(bus: BusSettings) -> None:
    """Delete all that a test left, other deployments' too: streams reserve storage."""
    link = await nats.connect(list(bus.urls), user=bus.user, password=bus.password)
    jetstream = link.jetstream()
    for info in await jetstream.streams_info():
        await jetstream.delete_stream(info.config.name or "")
    await link.close()


@pytest.fixture(scope="session")
def fake_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """The worker's stack of engines that need no model, which no test may disturb.

    It is watched by a loop of its own, as tests have a loop each.
    """
    config = StackConfig(port=0, store=tmp_path_factory.mktemp("stack"), engine="fake")
    running, loop = LocalStack(config), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
        yield running
    finally:
        asyncio.run_coroutine_threadsafe(running.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalStack]:
    """Broker, gateway, talker, vocoder on free ports: `stack.url`, `stack.bus`, `stack.children`.

    Parametrise indirectly with StackConfig's fields: `{"engine": "fake", "talkers": 2}`.
    """
    fields = {"port": 0, "store": tmp_path / "store", **getattr(request, "param", {})}
    lines: list[str] = []
    async with LocalStack(
        StackConfig(**fields), lambda name, line: lines.append(f"{name}: {line}")
    ) as running:
        yield running
    # pytest shows a fixture's output only beside a failure.
    print("\n".join(lines))
