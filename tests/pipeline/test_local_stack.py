"""`antiphon up` with every real process, on the engines that need no model.

tests/chaos kills each of them while it speaks, test_twins_restart.py talkers, and
gateway/test_job_takeover.py a gateway.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from antiphon.client import Audio, Finished, SpeechOptions, speak
from antiphon.say import whole
from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import RestartPolicy
from tests.waits import TIMEOUT_S

pytestmark = pytest.mark.slow

TEXT = "The tide is coming in."


async def sound(stack: LocalStack) -> bytes:
    """The whole of TEXT, spoken through the stack."""
    events = [event async for event in speak(stack.url, whole(TEXT), SpeechOptions(seed=7))]
    assert isinstance(events[-1], Finished)
    assert events[-1].outcome == "ok"
    return b"".join(event.pcm for event in events if isinstance(event, Audio))


@pytest.mark.parametrize("stack", [{"engine": "fake", "pair": True}], indirect=True)
async def test_a_talker_and_a_vocoder_in_one_process_speak_and_come_back(
    stack: LocalStack,
) -> None:
    assert sorted(stack.children) == ["broker", "gateway", "pair-1"]
    before = await sound(stack)
    child = stack.children["pair-1"]
    child.kill()
    async with asyncio.timeout(20):
        while child.starts < 2 or not child.ready.is_set():
            await asyncio.sleep(0.01)
        assert await sound(stack) == before


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[LocalStack]:
    """Gateways that hang when they say nothing for longer than a busy machine keeps them from."""
    restarts, store = RestartPolicy(silent_s=4.0), tmp_path / "store"
    config = StackConfig(port=0, engine="fake", gateways=2, store=store, restarts=restarts)
    async with LocalStack(config) as stack:
        yield stack


async def spoken(url: str) -> bytes:
    """As a client that asks again where nothing answers within a second."""
    async with asyncio.timeout(TIMEOUT_S), httpx.AsyncClient(base_url=url, timeout=1.0) as http:
        while True:
            try:
                body = {"input": TEXT, "response_format": "pcm"}
                answer = await http.post("/v1/audio/speech", json=body)
                if answer.status_code == 200:
                    return answer.content
            except httpx.TransportError:
                await asyncio.sleep(0.1)


async def test_a_gateway_that_is_stopped_is_started_anew_at_its_port(two: LocalStack) -> None:
    before = await spoken(two.url)
    hung, other = two.children["gateway"], two.children["gateway-2"]
    pid, port = hung.pid, hung.ports["http"]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert len(await spoken(f"http://127.0.0.1:{other.ports['http']}")) == len(before)
    assert len(await spoken(two.url)) == len(before)
    assert (hung.starts, other.starts) == (2, 1)
    assert hung.pid != pid
    assert hung.ports["http"] == port
