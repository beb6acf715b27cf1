"""A broker that lost its streams, or cannot write: told at once, and over without a restart."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest
import pytest_asyncio

from antiphon.stack import LocalStack, StackConfig
from tests.stacks import logged
from ttscommon.bus import Bus
from ttscommon.bus.layout import Layout
from ttscommon.bus.setup import prepare

LONG_TEXT = "The tide comes in over the sand, and the boats turn slowly on their chains. " * 4
AT_ONCE_S = 4.0

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    """One for all of them: that it recovers is what they are about."""
    config = StackConfig(port=0, engine="fake", store=tmp_path_factory.mktemp("store"))
    async with logged(config) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def stack(shared: LocalStack) -> LocalStack:
    await until_spoken(shared)
    return shared


async def speak(stack: LocalStack) -> httpx.Response:
    async with httpx.AsyncClient(base_url=stack.url, timeout=60) as client:
        body = {"input": "One two.", "response_format": "pcm"}
        return await client.post("/v1/audio/speech", json=body)


async def heard(stack: LocalStack, begun: asyncio.Event) -> int:
    """Bytes of a long text; `begun` says that the first of them came."""
    found, body = 0, {"input": LONG_TEXT, "response_format": "pcm"}
    async with (
        httpx.AsyncClient(base_url=stack.url, timeout=60) as client,
        client.stream("POST", "/v1/audio/speech", json=body) as answer,
    ):
        assert answer.status_code == 200
        async for part in answer.aiter_raw():
            found += len(part)
            begun.set()
    return found


async def ready(stack: LocalStack, name: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=10) as client:
        return await client.get(f"http://127.0.0.1:{stack.children[name].ports['admin']}/readyz")


async def until_ready(stack: LocalStack, *, wanted: bool = True) -> None:
    """Until every service says so: ready, or not because of its store."""
    async with asyncio.timeout(30):
        for name in ("gateway", "talker-1", "vocoder-1"):
            while True:
                answer = await ready(stack, name)
                if answer.is_success == wanted and ("store" in answer.text) != wanted:
                    break
                await asyncio.sleep(0.1)


async def refused(stack: LocalStack, code: str) -> None:
    """The next request is refused at once, with the reason and a hint."""
    began_s = time.monotonic()
    answer = await speak(stack)
    assert time.monotonic() - began_s < AT_ONCE_S
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, code)
    assert int(answer.headers["retry-after"]) >= 1


async def until_spoken(stack: LocalStack) -> None:
    async with asyncio.timeout(30):
        while (await speak(stack)).status_code != 200:
            await asyncio.sleep(0.1)


def lives(stack: LocalStack, *stages: str) -> list[int]:
    """How often the processes of these stages were started."""
    return [child.starts for name, child in stack.children.items() if name.startswith(stages)]


async def test_lost_streams_are_told_at_once_and_services_go_on_when_they_are_made_again(
    stack: LocalStack,
) -> None:
    bus = await Bus.connect(stack.bus, "test")
    try:
        for stream in Layout(stack.bus.prefix).streams():
            await bus.link.jetstream.delete_stream(stream.name or "")
        await refused(stack, "store_lost")
        await until_ready(stack, wanted=False)
        await prepare(stack.bus, "create")
        await until_spoken(stack)
        await until_ready(stack)
        assert set(lives(stack, "gateway", "talker", "vocoder")) == {1}
    finally:
        await bus.close()


@contextmanager
def no_room(stack: LocalStack) -> Iterator[None]:
    """No file of the broker's can grow: a full disk, as far as a program can tell."""
    pid = stack.children["broker"].pid
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_told_at_once_while_speech_goes_on_and_is_over_when_there_is_room(
    stack: LocalStack,
) -> None:
    begun = asyncio.Event()
    undisturbed = await heard(stack, begun)
    begun.clear()
    speaking = asyncio.create_task(heard(stack, begun))
    async with asyncio.timeout(30):
        await begun.wait()  # some of it is spoken, most is not
    with no_room(stack):
        await until_ready(stack, wanted=False)
        await refused(stack, "store_full")
        await asyncio.sleep(7.0)  # the workers' reports have expired
        await refused(stack, "store_full")
        assert await speaking == undisturbed
    # A broker that met a full disk writes again after a restart: what its liveness probe asks for.
    broker = stack.children["broker"]
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGTERM)
    await until_spoken(stack)
    await until_ready(stack)
    assert set(lives(stack, "gateway", "talker", "vocoder")) == {1}
