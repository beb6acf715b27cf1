"""Clients that leave: both stages' slots and every KV block come back, and nothing leaks."""

import asyncio
import json
import operator
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.stacks import metric, until_metric

LONG_TEXT = "And then the story went on for a while, as stories do. " * 40
CLIENTS = 6


# As /metrics writes it, labels by name.
USED_BLOCKS = 'tts_kv_blocks{model="vesper",state="used"}'


async def start(url: str) -> Any:
    """A socket on which audio has begun."""
    socket = await connect(f"{url.replace('http', 'ws')}/v1/audio/speech/stream")
    await socket.send(json.dumps({"type": "session.config", "voice": "default"}))
    await socket.send(json.dumps({"type": "input.text", "text": LONG_TEXT}))
    await socket.send(json.dumps({"type": "input.done"}))
    async for message in socket:
        if isinstance(message, bytes):
            return socket
        assert json.loads(message)["type"] != "error", message
    raise AssertionError("no audio came")


# However slow the machine is, all of them are to be let in.
OPEN_DOOR = pytest.mark.parametrize(
    "stack", [{"environ": {"gateway": {"ANTIPHON_ADMISSION": "off"}}}], indirect=True
)


@pytest.fixture
async def speaking(stack: Any) -> AsyncIterator[list[Any]]:
    sockets = await asyncio.gather(*(start(stack.url) for _ in range(CLIENTS)))
    assert await metric(stack, "talker-1", "tts_active_streams") == CLIENTS
    assert await metric(stack, "talker-1", USED_BLOCKS) > 0
    yield sockets
    for socket in sockets:
        await socket.close()
        await socket.wait_closed()


async def all_free(stack: Any) -> None:
    for child in ("talker-1", "vocoder-1"):
        await until_metric(stack, child, "tts_active_streams", operator.not_)
    await until_metric(stack, "talker-1", USED_BLOCKS, operator.not_)
    for child in ("talker-1", "vocoder-1"):
        assert await metric(stack, child, "tts_cancel_latency_seconds_count") == CLIENTS


@pytest.mark.slow
@OPEN_DOOR
async def test_clients_that_vanish_or_cancel_leave_nothing_behind(
    stack: Any, speaking: list[Any]
) -> None:
    for socket in speaking[::2]:
        socket.transport.abort()
    for socket in speaking[1::2]:
        await socket.send(json.dumps({"type": "cancel"}))
    await all_free(stack)
