"""Sockets on which clients type, beside others that send whole texts."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.stacks import until_metric

T = TypeVar("T")

SLOTS = 4
TYPISTS = 6
TEXT = "Somebody types this. "
STACK = {
    "engine": "fake",
    "slots": SLOTS,
    "environ": {stage: {"ANTIPHON_SLOTS": str(SLOTS)} for stage in ("talker", "vocoder")},
}


class Refused(Exception):
    """There is no room now; clients come again."""


async def send(socket: ClientConnection, **message: object) -> None:
    await socket.send(json.dumps(message))


async def hear(socket: ClientConnection, samples: int | None = None) -> bytes:
    """PCM as it comes: so many samples of it, or all until the request is over."""
    heard = b""
    async with asyncio.timeout(20):
        async for message in socket:
            if isinstance(message, bytes):
                heard += message
            elif json.loads(message)["type"] in ("audio.done", "error"):
                if json.loads(message).get("error", {}).get("code") == "overloaded":
                    raise Refused
                assert json.loads(message)["type"] == "audio.done", message
                return heard
            if samples is not None and len(heard) >= 2 * samples:
                return heard
    raise AssertionError("the socket was closed")


async def begin(url: str, seed: int) -> ClientConnection:
    socket = await connect(url.replace("http", "ws", 1) + "/v1/audio/speech/stream")
    await send(socket, type="session.config", seed=seed, response_format="pcm")
    await send(socket, type="input.text", text=TEXT)
    return socket


async def said_at_once(url: str, seed: int) -> bytes:
    socket = await begin(url, seed)
    await send(socket, type="input.text", text=TEXT)
    await send(socket, type="input.done")
    heard = await hear(socket)
    await socket.close()
    return heard


async def taken(begun: Callable[[], Awaitable[T]]) -> T:
    """As clients do, come again where there is no room: a new stack lets in half of what it could
    carry until it has seen that its listeners have enough.
    """
    async with asyncio.timeout(15):
        while True:
            try:
                return await begun()
            except Refused:
                await asyncio.sleep(0.1)


async def typing(url: str, seed: int) -> ClientConnection:
    """Somebody who has heard the beginning of what is written so far."""
    socket = await begin(url, seed)
    try:
        await hear(socket, 1)
    except Refused:
        await socket.close()
        raise
    return socket


async def parked(stack: Any, at_least: int) -> None:
    for child in ("talker-1", "vocoder-1"):
        await until_metric(stack, child, "tts_parked_streams", lambda found: found >= at_least)


@pytest.mark.slow
@pytest.mark.parametrize("stack", [STACK], indirect=True)
async def test_six_sockets_on_which_somebody_types_leave_four_slots_to_others(stack: Any) -> None:
    typists = [await taken(partial(typing, stack.url, seed)) for seed in range(TYPISTS)]
    await parked(stack, TYPISTS)
    others = (taken(partial(said_at_once, stack.url, 100 + n)) for n in range(SLOTS))
    assert all(await asyncio.gather(*others))
    for one in typists:
        await one.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "victims",
    [
        pytest.param((), id="nothing dies"),
        pytest.param(("talker", "vocoder"), id="both stages die"),
    ],
)
@pytest.mark.parametrize("stack", [STACK], indirect=True)
async def test_a_parked_stream_sounds_as_one_that_never_waited(
    stack: Any, victims: tuple[str, ...]
) -> None:
    whole = await said_at_once(stack.url, 7)
    socket = await begin(stack.url, 7)
    heard = await hear(socket, 1)
    await parked(stack, 1)
    for victim in victims:
        stack.children[f"{victim}-1"].kill()
    await send(socket, type="input.text", text=TEXT)
    await send(socket, type="input.done")
    heard += await hear(socket)
    await socket.close()
    same = np.frombuffer(heard, "<i2").astype(int), np.frombuffer(whole, "<i2").astype(int)
    assert len(same[0]) == len(same[1])
    assert np.abs(same[0] - same[1]).max() <= (1 if victims else 0)
