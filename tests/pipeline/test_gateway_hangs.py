"""A gateway that hangs takes no client with it for long: its supervisor starts it anew."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import RestartPolicy
from tests.waits import TIMEOUT_S

BODY = {"input": "The tide is coming in.", "response_format": "pcm"}
SILENT_S = 4.0  # a machine that is busy hangs nothing for so long


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[LocalStack]:
    config = StackConfig(
        port=0,
        engine="fake",
        gateways=2,
        store=tmp_path / "store",
        restarts=RestartPolicy(silent_s=SILENT_S),
    )
    async with LocalStack(config) as stack:
        yield stack


async def spoken(url: str) -> bytes:
    """As a client that asks again where nothing answers within a second."""
    async with asyncio.timeout(TIMEOUT_S), httpx.AsyncClient(base_url=url, timeout=1.0) as http:
        while True:
            try:
                answer = await http.post("/v1/audio/speech", json=BODY)
                if answer.status_code == 200:
                    return answer.content
            except httpx.TransportError:
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_gateway_that_is_stopped_is_started_anew_at_its_port(two: LocalStack) -> None:
    before = await spoken(two.url)
    hung, other = two.children["gateway"], two.children["gateway-2"]
    pid, port = hung.pid, hung.ports["http"]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    began_s = time.monotonic()
    assert len(await spoken(f"http://127.0.0.1:{other.ports['http']}")) == len(before)
    assert len(await spoken(two.url)) == len(before)
    print(f"served again after {time.monotonic() - began_s:.1f} s")
    assert hung.starts == 2
    assert other.starts == 1
    assert hung.pid != pid
    assert hung.ports["http"] == port
