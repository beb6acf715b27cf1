"""A job goes on when the gateway that speaks it is killed, and its samples are the same."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import RestartPolicy
from gateway.books.portions import seed_of
from tests.stacks import JOBS, job_card
from tests.waits import TIMEOUT_S
from ttscommon.process.tasks import stop

RATE = 16_000
TEXTS = [f"This is paragraph {n}." for n in range(6)]
HELD = TEXTS[3]
JOB = {
    "input": "\n\n".join(TEXTS),
    "response_format": "pcm",
    "sample_rate": RATE,
    "seed": 5,
    "paragraph_pause_s": 0,
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalStack]:
    """A broker, and a gateway that stays away when it is killed."""
    restarts = RestartPolicy(3600.0, 3600.0)
    config = StackConfig(port=0, talkers=0, vocoders=0, store=tmp_path / "store", restarts=restarts)
    async with LocalStack(config) as running:
        yield running


async def test_a_job_outlives_the_gateway_that_speaks_it(
    stand: Any, broker: LocalStack, talk: Any
) -> None:
    held, released = asyncio.Event(), asyncio.Event()

    async def holds_one_back(performance: Any) -> None:
        if performance.job.request.text == HELD:
            held.set()
            await released.wait()
        await talk.recite(performance)

    stand.stage.script = holds_one_back
    # The stage of the test came later than the gateway, which then looks for it.
    async with httpx.AsyncClient(base_url=broker.url, timeout=TIMEOUT_S) as doomed:
        job = (await doomed.post(JOBS, json=JOB)).json()
        others = sum(map(len, TEXTS)) - len(HELD)
        await job_card(doomed, job["id"], lambda card: card["progress"]["spoken"] == others)
        await held.wait()
        broker.children["gateway"].kill()
    released.set()
    job_runner = asyncio.create_task(stand.gateway.job_runner.run())
    try:
        card = await job_card(stand.http, job["id"])
    finally:
        await stop(job_runner, again_s=10.0)
    sound = (await stand.http.get(card["audio_url"])).content
    expected = [talk.sound(text, seed_of(5, index, 0)) for index, text in enumerate(TEXTS)]
    assert sound == np.concatenate(expected).astype("<i2").tobytes()
    spoken = [one.request.text for one in stand.stage.jobs]
    assert {text: spoken.count(text) for text in TEXTS} == dict.fromkeys(TEXTS, 1) | {HELD: 2}
