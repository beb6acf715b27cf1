"""A client's mistakes are its own: they leave no exception that nobody looked at."""

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.waits import until


@pytest.fixture
async def complaints() -> AsyncIterator[list[str]]:
    """What the event loop says of tasks and callbacks that failed unheard."""
    loop, heard = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: heard.append(str(context["message"])))
    yield heard
    loop.set_exception_handler(None)


CONFIG = json.dumps({"type": "session.config", "resumable": True})
MISTAKES: dict[str, list[str | bytes]] = {
    "no json": ["{"],
    "binary": [b"\x00\x01"],
    "no configuration": [json.dumps({"type": "input.text", "text": "early"})],
    "an unknown voice": [json.dumps({"type": "session.config", "voice": "hal"})],
    "a wrong token": [
        CONFIG,
        json.dumps({"type": "session.resume", "request_id": "stranger-1", "token": "x"}),
    ],
    "too much text": [CONFIG, json.dumps({"type": "input.text", "text": "a" * 20_000})],
    "text that is never spoken": [CONFIG, json.dumps({"type": "input.text", "text": "Hello"})],
    "nothing to say": [
        CONFIG,
        json.dumps({"type": "input.text", "text": " "}),
        json.dumps({"type": "input.done"}),
    ],
    "a cancel of a stranger": [CONFIG, json.dumps({"type": "cancel", "request_id": "stranger-1"})],
}


@pytest.mark.parametrize("leaves", ["closes", "vanishes"])
async def test_a_mistake_is_told_and_leaves_nothing_behind(
    stand: Any, complaints: list[str], leaves: str
) -> None:
    for messages in MISTAKES.values():
        socket = await stand.socket()
        for message in messages:
            await socket.send(message)
        with contextlib.suppress(TimeoutError, ConnectionClosed):  # not all of them are answered
            await asyncio.wait_for(socket.recv(), 1)
        if leaves == "closes":
            await socket.close()
        else:
            socket.transport.abort()
    await until(lambda: not stand.gateway.sessions)
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
