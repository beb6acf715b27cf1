"""`GET /v1/usage`: what a key used, exactly, over sockets, HTTP, jobs, gateways and restarts."""

import asyncio
from typing import Any

import httpx
import pytest

from antiphon.stack import LocalStack
from gateway.app import create_gateway
from gateway.settings import GatewaySettings
from tests.stacks import job_card
from ttscommon.bus import Bus
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.tasks import stop

PER_CHARACTER_S = 160 / 16_000
BODY = {"response_format": "pcm"}


async def used(http: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await http.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["total"])


async def test_requests_characters_and_sound_are_counted_as_they_are_handed_over(
    stand: Any, talk: Any
) -> None:
    assert await used(stand.http) == {"requests": 0, "characters": 0, "audio_seconds": 0}
    for text in ("Good morning.", "Grüße!"):
        await stand.http.post("/v1/audio/speech", json={**BODY, "input": text})
    async with stand.session(model="vesper", voice="slt") as socket:
        for piece in ("One two ", "three."):
            await talk.send(socket, "input.text", text=piece)
        await talk.send(socket, "input.done")
        await talk.until(socket, "audio.done")
    characters = len("Good morning.") + len("Grüße!") + len("One two three.")
    found = await used(stand.http)
    assert (found["requests"], found["characters"]) == (3, characters)
    assert found["audio_seconds"] == pytest.approx(characters * PER_CHARACTER_S, abs=0.001)
    assert stand.metric("tts_characters_total") == characters


async def test_a_job_is_one_request_and_what_is_stored_of_it(stand: Any) -> None:
    working = asyncio.create_task(stand.gateway.job_runner.run())
    job = {"input": "It was calm.\n\nNo one answered.", "response_format": "pcm"}
    made = (await stand.http.post("/v1/audio/jobs", json=job)).json()
    await job_card(stand.http, made["id"])
    found = await used(stand.http)
    assert (found["requests"], found["characters"]) == (1, len("It was calm.No one answered."))
    assert found["audio_seconds"] >= found["characters"] * PER_CHARACTER_S
    await stop(working, again_s=10.0)


async def test_a_gateway_that_ends_leaves_what_it_counted_to_the_others(
    stand: Any, broker: LocalStack
) -> None:
    await stand.http.post("/v1/audio/speech", json={**BODY, "input": "Good morning."})
    await stand.gateway.drain()
    bus = await Bus.connect(broker.bus, "gateway")
    next_one = create_gateway(GatewaySettings(port=0), bus, GatewayMetrics())
    transport = httpx.ASGITransport(app=next_one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert (await used(http))["characters"] == len("Good morning.")
    await bus.close()


async def test_days_are_asked_for_by_their_dates(stand: Any) -> None:
    await stand.http.post("/v1/audio/speech", json={**BODY, "input": "Good morning."})
    answer = (await stand.http.get("/v1/usage")).json()
    [row] = answer["data"]
    assert (row["model"], row["requests"], row["date"]) == ("vesper", 1, answer["end_date"])
    before = await used(stand.http, start_date="2020-01-01", end_date="2020-01-31")
    assert before["requests"] == 0
    for query in ({"start_date": "May"}, {"start_date": "2020-01-01", "end_date": "2024-01-01"}):
        refused = await stand.http.get("/v1/usage", params=query)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "start_date"
