"""A Realtime session over the real services: turns, an interruption, and deaths in mid-answer."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from antiphon.stack import LocalStack
from tests.realtime import Client, opened, sound
from tests.stacks import SLOW
from tests.waits import TIMEOUT_S

TEXT = "One after another the lamps are lit along the wall. " * 2


async def ask(client: Client, text: str) -> None:
    await client.say(text)
    await client.send("response.create")


async def some(client: Client, samples: int) -> None:
    """Until so much was heard."""
    while len(sound(client.events)) < samples:
        await client.event()


@pytest.mark.slow
@SLOW
@pytest.mark.parametrize("victim", ["talker-1", "vocoder-1", "gateway"])
async def test_a_session_goes_on_when_a_process_is_killed(stack: LocalStack, victim: str) -> None:
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(opened(stack.url, "&resumable=true"))
        name = client.events[0]["session"]["id"]
        await ask(client, TEXT)
        whole = await client.until("response.done")
        client.events.clear()
        await ask(client, TEXT)
        await some(client, 24_000)
        stack.children[victim].kill()
        before: list[dict[str, Any]] = []
        try:
            await client.until("response.done")
        except ConnectionClosed:
            before = client.events
            client = await back(clients, stack.url, name, len(sound(before)))
            await client.until("response.done")
        await client.send("response.create")
        nothing = (await client.last("response.done"))["response"]
    done = next(e["response"] for e in client.events if e["type"] == "response.done")
    assert (victim == "gateway") == bool(before)
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["transcript"] == TEXT.strip()
    assert len(sound([*before, *client.events])) == len(sound(whole))
    assert nothing["output"] == []  # what was said is not said again


async def back(stack: AsyncExitStack, url: str, name: str, samples: int) -> Client:
    """The session over another connection, as soon as there is a gateway."""
    query = f"&session={name}&from_sample={samples}"
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return await stack.enter_async_context(opened(url, query))
            except (OSError, InvalidHandshake, ConnectionClosed):
                await asyncio.sleep(0.1)
