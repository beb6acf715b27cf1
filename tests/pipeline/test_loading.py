"""While a talker loads its weights, callers are told so and when to come back."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from antiphon.stack import LocalStack
from gateway.service import serve as serve_gateway
from gateway.settings import GatewaySettings
from talker.loading import build_engine
from talker.settings import TalkerSettings
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus
from ttscommon.bus.setup import prepare
from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.stage import run_stage
from ttscommon.process import service as process
from ttscommon.process.service import Service
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable, NoResponders
from ttscommon.wire.replicas import Replica


def idle(bus: Any, engine: Any) -> Any:
    """The handler of no job."""
    return None


async def test_a_request_gets_503_with_retry_after_while_the_talker_loads(
    broker: LocalStack,
) -> None:
    await prepare(broker.bus, "create")
    loaded = threading.Event()
    settings = TalkerSettings(engine="fake", bus=broker.bus, drain_s=1)

    def build(metrics: Any, *, beat: Callable[[], None], died: Callable[[], object]) -> Any:
        loaded.wait()
        return build_engine(settings, metrics, beat=beat, died=died)

    talker = Service("talker", settings)
    gateway = Service("gateway", GatewaySettings(port=0, bus=broker.bus, drain_s=1))
    running = [
        asyncio.create_task(
            talker.run(lambda one: run_stage(one, settings, subjects.TALKER, build, idle))
        ),
        asyncio.create_task(gateway.run(lambda one: serve_gateway(one, gateway.settings))),  # type: ignore[arg-type]
    ]
    try:
        async with asyncio.timeout(30):
            while "http" not in gateway.ports:
                await asyncio.sleep(0.02)
            response = await until_said(gateway.ports["http"], "a talker is loading 'vesper'")
            assert response.status_code == 503
            assert response.headers["retry-after"] == "2"
            loaded.set()
            await until_said(gateway.ports["http"], "no live vocoder serves 'vesper'")
    finally:
        loaded.set()
        talker.stop()
        gateway.stop()
        await asyncio.gather(*running)


async def test_a_talker_whose_engine_hangs_answers_no_ping(
    broker: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event loop lives; an idle engine turns twice a second."""
    monkeypatch.setattr(process, "DEFAULT_HEARTBEAT_LIMIT_S", 1.2)
    await prepare(broker.bus, "create")
    stuck, over = threading.Event(), threading.Event()
    settings = TalkerSettings(engine="fake", bus=broker.bus, drain_s=1)

    def build(metrics: Any, *, beat: Callable[[], None], died: Callable[[], object]) -> Any:
        engine = build_engine(settings, metrics, beat=beat, died=died)
        computed = engine._turn

        def turn() -> bool:
            if stuck.is_set():
                over.wait()
            return computed()

        monkeypatch.setattr(engine, "_turn", turn)
        return engine

    talker = Service("talker", settings)
    main = lambda one: run_stage(one, settings, subjects.TALKER, build, idle)  # noqa: E731
    running, bus = asyncio.create_task(talker.run(main)), await Bus.connect(broker.bus, "gateway")
    try:
        await until(lambda: talker.ready().ok)
        [report] = (await bus.kv.all(subjects.REPLICAS)).values()
        ping = subjects.ping(Replica.decode(report).worker_id)
        assert float(await bus.link.request(ping, b"", 5.0)) < 1.2
        stuck.set()
        await until(lambda: silent(bus, ping))
        over.set()
        async with asyncio.timeout(TIMEOUT_S):
            while await silent(bus, ping):
                pass  # it has not turned since
    finally:
        over.set()
        talker.stop()
        await running
        await bus.close()


async def silent(bus: Bus, subject: str) -> bool:
    """Whether a subscriber gives no answer; raises NoResponders where there is none."""
    try:
        await bus.link.request(subject, b"", 0.3)
    except NoResponders:
        raise
    except BusUnavailable:
        return True
    return False


async def test_a_process_whose_model_cannot_be_loaded_leaves_no_connection(
    broker: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare(broker.bus, "create")
    connect, made, connected = Bus.connect, list[Bus](), threading.Event()

    async def watched(settings: Any, name: str) -> Bus:
        made.append(await connect(settings, name))
        connected.set()
        return made[-1]

    def build(*given: Any, **more: Any) -> Any:
        connected.wait()
        raise CheckpointError("there are no weights")

    monkeypatch.setattr(Bus, "connect", watched)
    settings = TalkerSettings(engine="fake", bus=broker.bus, drain_s=1)
    talker = Service("talker", settings)

    def none(bus: Any, engine: Any) -> Any:
        return None

    code = await talker.run(lambda one: run_stage(one, settings, subjects.TALKER, build, none))
    assert code != 0
    assert made[0].link.closed


async def until_said(port: int, text: str) -> httpx.Response:
    """The first answer to a request whose error says `text`."""
    async with httpx.AsyncClient() as client:
        while True:
            url = f"http://127.0.0.1:{port}/v1/audio/speech"
            response = await client.post(url, json={"input": "Hello."})
            if text in response.json()["error"]["message"]:
                return response
            await asyncio.sleep(0.05)
