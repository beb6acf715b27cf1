"""A book goes on when the gateway that speaks it is killed, and gives way to a listener."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.stacks import JOBS, job_card, metric
from tests.waits import TIMEOUT_S

TEXT = "\n\n".join(f"This is paragraph {n} of a book that is read aloud." for n in range(6))
JOB = {"input": TEXT, "response_format": "wav", "seed": 3}
# Every gateway has a port of its own.
STACK = pytest.mark.parametrize(
    "stack",
    [
        {
            "engine": "fake",
            "gateways": 2,
            "environ": {
                "talker": {"ANTIPHON_SLOTS": "3"},
                "vocoder": {"ANTIPHON_SLOTS": "3"},
            },
        }
    ],
    indirect=True,
)


@STACK
@pytest.mark.slow
async def test_a_book_outlives_its_gateway_and_sounds_the_same(stack: Any) -> None:
    gateways = [name for name in stack.children if name.startswith("gateway")]
    urls = {n: f"http://127.0.0.1:{stack.children[n].ports['http']}" for n in gateways}
    async with asyncio.timeout(2 * TIMEOUT_S), httpx.AsyncClient(timeout=TIMEOUT_S) as http:
        http.base_url = httpx.URL(urls[gateways[0]])
        job = (await http.post(JOBS, json=JOB)).json()
        await job_card(http, job["id"], lambda card: card["progress"]["spoken"] > 0)
        speech = {"model": "tts-1", "input": "A listener comes.", "response_format": "pcm"}
        live = await http.post("/v1/audio/speech", json=speech)
        assert (live.status_code, len(live.content) > 1000) == (200, True)

        (owner,) = [name for name in gateways if await metric(stack, name, "tts_books_held ")]
        (other,) = set(gateways) - {owner}
        stack.children[owner].kill()
        http.base_url = httpx.URL(urls[other])
        card = await job_card(http, job["id"])
        sound = (await http.get(card["audio_url"])).content
        again = (await http.post(JOBS, json=JOB)).json()
        card = await job_card(http, again["id"])
        assert (await http.get(card["audio_url"])).content == sound
    assert len(sound) > 16_000 * 6
