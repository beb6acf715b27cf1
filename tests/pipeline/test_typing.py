"""Sockets on which clients type, beside others that send whole texts."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.native import Client
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


async def heard(client: Client, kind: str) -> bytes:
    """All PCM up to a message of this type, or to the next piece."""
    told = await client.until(kind, "error")
    if told["type"] == "error":
        assert told["error"]["code"] == "overloaded"
        raise Refused
    return client.pcm


async def said_at_once(url: str, seed: int) -> bytes:
    async with await Client.opened(url) as client:
        await client.say(TEXT, TEXT, seed=seed, response_format="pcm")
        return await heard(client, "audio.done")


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


async def typing(url: str, seed: int) -> Client:
    """Somebody who has heard the beginning of what is written so far."""
    client = await Client.opened(url)
    await client.send("session.config", seed=seed, response_format="pcm")
    await client.send("input.text", text=TEXT)
    try:
        await heard(client, "audio")
    except Refused:
        await client.socket.close()
        raise
    return client


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
        await one.socket.close()


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
    async with await typing(stack.url, 7) as client:
        await parked(stack, 1)
        for victim in victims:
            stack.children[f"{victim}-1"].kill()
        await client.send("input.text", text=TEXT)
        await client.send("input.done")
        found = await heard(client, "audio.done")
    same = np.frombuffer(found, "<i2").astype(int), np.frombuffer(whole, "<i2").astype(int)
    assert len(same[0]) == len(same[1])
    assert np.abs(same[0] - same[1]).max() <= (1 if victims else 0)
