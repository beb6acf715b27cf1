"""Fixtures for everybody: a real broker and a whole stack, the worker's or a test's own."""

import asyncio
import gc
import json
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import nats
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from antiphon.stack import LocalStack, StackConfig
from tests.connections import Connect, connecting
from tests.stacks import logged
from ttscommon.bus import Bus
from ttscommon.process.settings import BusSettings

# Kernels run in Triton's interpreter, which has to be chosen before any test imports Triton.
os.environ.setdefault("TRITON_INTERPRET", "1")

# A machine that is busy with something else fails no test.
settings.register_profile(
    "antiphon",
    deadline=None,
    max_examples=100 if "ANTIPHON_FUZZ" in os.environ else 25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("antiphon")

# Files whose tests take longest: what begins last ends last, and has a core to itself.
_LONG = (
    "unit/ttsfamilies/test_conformance.py",
    "pipeline/test_parity.py",
    "pipeline/gateway/test_gateway_loop.py",
    "unit/ttsfamilies/base/kernels/test_trials.py",
    "unit/antiphon/test_local.py",
    "parity/test_families.py",
    "pipeline/test_families.py",
    "unit/ttsfamilies/test_published.py",
    "unit/ttsfamilies/base/codec/test_stateful.py",
    "unit/ttsfamilies/base/talker/test_pauses.py",
    "unit/ttsfamilies/base/runners/test_serving_on_a_device.py",
    "pipeline/test_shared_process.py",
    "pipeline/test_twins_restart.py",
    "pipeline/test_processes.py",
    "parity/test_broken.py",
    "unit/antiphon_bench/gpu/test_bundle.py",
    "unit/antiphon_bench/plan/test_fleet.py",
    "unit/vocoder/test_conformance.py",
)

_PREFIXES = (f"test{number}" for number in count())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests wait for clocks and brokers in a fifth of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first."""
    root = Path(__file__).parent
    turns = {root / name: turn for turn, name in enumerate(_LONG)}
    items.sort(key=lambda item: turns.get(item.path, len(_LONG)))


def pytest_collection_finish() -> None:
    """What was loaded stays; to look through all of it again takes most of a second each time."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Broker:
    """How to reach the worker's broker, below a prefix that no other test has."""

    bus: BusSettings


@pytest.fixture(scope="session")
def quick_folder() -> Iterator[Path]:
    """In memory, where there is room: a broker writes each stream's files through to a disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30
    with tempfile.TemporaryDirectory(dir=memory if roomy else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared_broker(quick_folder: Path) -> Iterator[BusSettings]:
    """The worker's broker, which no test may stop.

    Watched by a loop of its own, as tests have a loop each; it ends with this process.
    """
    config = StackConfig(gateways=0, talkers=0, vocoders=0, store=quick_folder / "broker")
    running, loop = LocalStack(config), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(running.start(), loop).result()
        yield running.bus
    finally:
        asyncio.run_coroutine_threadsafe(running.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_broker(shared_broker: BusSettings) -> AsyncIterator[BusSettings]:
    """A prefix for all tests of a module, which has no others."""
    yield (own := shared_broker.model_copy(update={"prefix": next(_PREFIXES)}))
    await _forget(own)


@pytest.fixture
async def connect(broker: Broker | LocalStack) -> AsyncIterator[Connect]:
    """Connects to a broker that is prepared for a model `m`; connections end with the test."""
    async with connecting(broker.bus) as connected:
        yield connected


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    return await connect()


@pytest.fixture
async def other(connect: Connect, bus: Bus) -> Bus:
    """A second connection."""
    return await connect("other")


async def _forget(bus: BusSettings) -> None:
    """Delete all that a test left, other deployments' too: streams reserve storage."""
    link = await nats.connect(list(bus.urls), user=bus.user, password=bus.password)
    jetstream = link.jetstream()
    left = await jetstream.streams_info()
    await asyncio.gather(*(jetstream.delete_stream(info.config.name or "") for info in left))
    await link.close()


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalStack]:
    """Broker, gateway, talker, vocoder on free ports: `stack.url`, `stack.bus`, `stack.children`.

    Parametrise indirectly with StackConfig's fields: `{"engine": "fake", "talkers": 2}`, and with
    `curves`, by which the fake engines of stages take their time.
    """
    fields = {"port": 0, "store": tmp_path / "store", **getattr(request, "param", {})}
    for stage, curve in fields.pop("curves", {}).items():
        path = tmp_path / f"{stage}-curve.json"
        path.write_text(json.dumps(curve))
        engine = {stage: {"ANTIPHON_FAKE_CURVE": str(path)}}
        fields["environ"] = {**fields.get("environ", {}), **engine}
    async with logged(StackConfig(**fields)) as running:
        yield running
