"""Deaths in spoken turns over the Realtime socket, with GLM-4-Voice and Step-Audio 2.

tests/clients has turns and interruptions of real clients with the same models.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import numpy as np
import pytest
import pytest_asyncio
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from antiphon.stack import LocalStack
from tests.answering import LIMIT_S, VOICES, answering, ready
from tests.realtime import Client, opened, sound, transcript
from tests.stacks import logged
from tests.waits import TIMEOUT_S

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

IDS: Final = 150
"""Of an answer: words and sound, some blocks of each flow."""
RATES_HZ: Final = {"glm": 12.5, "step": 25.0}

families = pytest.mark.parametrize("family", sorted(VOICES))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    config = answering(tmp_path_factory.mktemp("answering"))
    async with logged(config) as running:
        await ready(running)
        yield running


async def speak(client: Client, seconds: float) -> None:
    """The user's voice, and what is quiet around it."""
    noise = np.random.default_rng(5).standard_normal(int(24_000 * seconds)) * 3000
    quiet = np.zeros(24_000)
    for pcm in np.array_split(np.concatenate([quiet[:12_000], noise, quiet]), 20):
        audio = base64.b64encode(pcm.astype("<i2").tobytes()).decode()
        await client.send("input_audio_buffer.append", audio=audio)


async def configure(client: Client, family: str) -> None:
    audio = {"output": {"voice": VOICES[family]}, "input": {"turn_detection": None}}
    await client.configure(model=family, audio=audio, max_output_tokens=IDS)


async def some(client: Client, samples: int) -> None:
    """Until so much was heard."""
    while len(sound(client.events)) < samples:
        await client.event()


async def back(stack: AsyncExitStack, url: str, name: str, samples: int) -> Client:
    """The session over another connection, as soon as there is a gateway."""
    query = f"&session={name}&from_sample={samples}"
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return await stack.enter_async_context(opened(url, query))
            except (OSError, InvalidHandshake, ConnectionClosed):
                await asyncio.sleep(0.1)


def done(events: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (event["response"] for event in events if event["type"] == "response.done")
    return dict(found)


def heard_whole(events: list[dict[str, Any]]) -> None:
    """A completed response, all of whose sound and words came."""
    response = done(events)
    assert response["status"] == "completed", response
    assert response["output"][0]["content"][0]["transcript"] == transcript(events)
    assert transcript(events)
    assert np.abs(sound(events).astype(int)).max() > 100


@families
@pytest.mark.parametrize("victim", ["talker", "vocoder", "gateway"])
async def test_a_spoken_turn_is_answered_whole_when_a_process_is_killed(
    family: str, victim: str, served: LocalStack
) -> None:
    process = victim if victim == "gateway" else f"{victim}-{family}-1"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(opened(served.url, "&resumable=true"))
        client.timeout_s = LIMIT_S
        await configure(client, family)
        name = client.events[0]["session"]["id"]
        await speak(client, 0.6)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await some(client, 12_000)
        served.children[process].kill()
        before: list[dict[str, Any]] = []
        try:
            await client.until("response.done")
        except ConnectionClosed:
            before = client.events
            client = await back(stack, served.url, name, len(sound(before)))
            client.timeout_s = LIMIT_S
            await client.until("response.done")
        told = list(client.events)
        await client.send("response.create")
        nothing = done(await client.until("response.done"))
    assert (victim == "gateway") == bool(before)
    heard_whole(told)
    frame_s = 1 / RATES_HZ[family]
    assert (
        abs(len(sound(told)) / 24_000 - done(told)["usage"]["output_tokens"] * frame_s) <= frame_s
    )
    assert nothing["output"] == []  # what was answered is not answered again
