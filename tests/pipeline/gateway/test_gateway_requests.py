"""What a protocol module works with: a context that speaks, attaches, cancels, accounts."""

import asyncio
from typing import Any

import numpy as np
import pytest

from gateway.audio import pieces
from gateway.errors import NotFound
from gateway.requests import GatewayContext, Speech

TEXT = "The tide is coming in."


async def heard(speech: Speech) -> np.ndarray[Any, np.dtype[np.int16]]:
    parts = []
    async with speech:
        async for piece in pieces(speech):
            parts.append(piece.data)
            await speech.handed(piece.samples)
    return np.frombuffer(b"".join(parts), "<i2")


@pytest.fixture
def context(stand: Any) -> GatewayContext:
    found: GatewayContext = stand.gateway.context
    return found


async def test_a_text_is_spoken_and_accounted(context: GatewayContext, talk: Any) -> None:
    spec = await context.spec(voice="slt", seed=3)
    speech = context.speak(spec, context.whole(TEXT))
    pcm = await heard(speech)
    assert np.array_equal(pcm, talk.sound(TEXT, 3))
    assert speech.outcome == "ok"
    assert speech.delivery.account is not None
    assert speech.delivery.account.samples == len(pcm)
    assert speech.delivery.ttfp_s is not None
    assert speech.delivery.ttfp_s > 0.0


async def test_text_may_come_while_it_is_spoken(context: GatewayContext, talk: Any) -> None:
    text = context.text()
    speaking = asyncio.create_task(heard(context.speak(await context.spec(seed=3), text)))
    for word in TEXT.split(" "):
        text.add(f"{word} ")
        await asyncio.sleep(0)
    text.finish()
    assert np.array_equal(await speaking, talk.sound(f"{TEXT} ", 3))


async def test_a_request_that_is_cancelled_ends_its_iteration_and_frees_the_stages(
    stand: Any, context: GatewayContext, talk: Any
) -> None:
    async def endless(performance: Any) -> None:
        while True:
            await performance.say("la")
            await asyncio.sleep(0.01)

    stand.stage.script = endless
    speech = context.speak(await context.spec(), context.whole(TEXT))
    async with speech:
        async for _ in pieces(speech):
            speech.cancel()
    assert speech.outcome == "cancelled"
    async with asyncio.timeout(10):
        await stand.stage.cancelled_event(speech.request_id).wait()


async def test_a_request_that_waits_for_its_sound_can_be_cancelled(
    stand: Any, context: GatewayContext
) -> None:
    async def silent(performance: Any) -> None:
        await asyncio.Event().wait()

    stand.stage.script = silent
    speech = context.speak(await context.spec(), context.whole(TEXT))
    async with asyncio.timeout(10), speech:
        waiting = asyncio.create_task(anext(aiter(speech)))
        await asyncio.sleep(0)
        speech.cancel()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_the_rest_of_a_request_can_be_attached_to(context: GatewayContext, talk: Any) -> None:
    spec = await context.spec(seed=3, resumable=True)
    first = context.speak(spec, context.whole(TEXT))
    whole = await heard(first)
    rest = context.attach(spec, first.request_id, 500, first.resume_token)
    assert np.array_equal(await heard(rest), whole[500:])
    assert not rest.fresh


async def test_what_was_never_submitted_cannot_be_attached_to(context: GatewayContext) -> None:
    token = context.services.tokens.issue("nosuchrequest", "")
    with pytest.raises(NotFound):
        await heard(context.attach(await context.spec(), "nosuchrequest", 0, token))
