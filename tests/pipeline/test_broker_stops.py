"""One of three brokers stops answering in mid-speech, and its listener hears no long gap."""

import asyncio
import os
import signal
import time
from itertools import pairwise

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.chaos.leaders import leaders_of

TEXT = "The tide comes in over the sand, and the boats turn slowly on their chains. " * 8
# A second to notice, and the rest for a machine that is busy.
LONGEST_GAP_S = 4.0


async def arrivals(url: str, begun: asyncio.Event) -> list[float]:
    """When each part of a speech came; the last one is its end."""
    found = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        body = {"input": TEXT, "response_format": "pcm"}
        async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert answer.status_code == 200
            async for _ in answer.aiter_bytes():
                found.append(time.monotonic())
                begun.set()
    return [*found, time.monotonic()]


@pytest.mark.slow
@pytest.mark.parametrize("stack", [{"engine": "fake", "brokers": 3}], indirect=True)
async def test_speech_goes_on_when_one_of_three_brokers_stops_answering(stack: LocalStack) -> None:
    await arrivals(stack.url, asyncio.Event())
    leader = stack.children[(await leaders_of(stack.bus))["CODES"]]
    assert leader.pid is not None
    begun = asyncio.Event()
    speaking = asyncio.create_task(arrivals(stack.url, begun))
    await begun.wait()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        heard = await asyncio.wait_for(speaking, 60)
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    assert max(b - a for a, b in pairwise(heard)) < LONGEST_GAP_S
