"""The chart's pods run by hand: they may speak, recover and cancel, and no more than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import nats
import pytest

from antiphon.client import Audio, SpeechOptions, speak
from antiphon.say import whole
from tests.deploy.chart import example
from tests.deploy.rendered import RunningChart, running

SENTENCE: Final = "The tide is coming in, and the boats along the quay begin to lift and turn. "
FORBIDDEN: Final = {
    "talker": [
        "antiphon.audio.r",
        "antiphon.job.talk.vesper.r",
        "another.codes.r",
        "$KV.antiphon-replicas.vocoder.w",
        "$JS.API.CONSUMER.MSG.NEXT.antiphon-VOCODE_JOBS.antiphon-voc-vesper",
        "$JS.API.STREAM.PURGE.antiphon-CODES",
        "$JS.API.STREAM.UPDATE.antiphon-CODES",
    ],
    "vocoder": [
        "antiphon.codes.r",
        "antiphon.live.codes.r",
        "antiphon.job.voc.vesper.r",
        "$KV.antiphon-leases.talker.r",
    ],
    "gateway": [
        "antiphon.codes.r",
        "antiphon.audio.r",
        "$KV.antiphon-replicas.talker.w",
        "$JS.API.STREAM.DELETE.antiphon-CODES",
        "$JS.API.CONSUMER.MSG.NEXT.antiphon-TALK_JOBS.antiphon-talk-vesper",
    ],
    "setup": ["antiphon.job.talk.vesper.r", "$JS.API.STREAM.DELETE.antiphon-CODES"],
    "system": ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.X.RELOAD"],
}
ENGINES: Final = {"engine": "fake", "replicas": 2}


@pytest.fixture
async def chart(tmp_path: Path) -> AsyncIterator[RunningChart]:
    values: dict[str, Any] = {**example("laptop"), "talker": ENGINES, "vocoder": ENGINES}
    async with running(values, tmp_path) as running_chart:
        yield running_chart


def violations(chart: RunningChart) -> list[str]:
    """What the broker refused."""
    return [line for line in chart.log if "iolation" in line]


async def test_the_rendered_pods_speak_recover_and_cancel_with_the_rights_they_have(
    chart: RunningChart,
) -> None:
    text, options = whole(SENTENCE * 4), SpeechOptions(seed=7)
    before = b"".join(
        [e.pcm async for e in speak(chart.url, text, options) if isinstance(e, Audio)]
    )
    after, killed = b"", False
    async for event in speak(chart.url, whole(SENTENCE * 4), options):
        if isinstance(event, Audio):
            after += event.pcm
            if not killed:
                chart.children["talker-1"].kill()
                chart.children["vocoder-2"].kill()
                killed = True
    assert after == before
    async with httpx.AsyncClient(base_url=chart.url, timeout=10) as http:
        body = {"input": SENTENCE * 40, "response_format": "pcm"}
        async with http.stream("POST", "/v1/audio/speech", json=body) as response:
            async for _ in response.aiter_raw():
                break  # leaving cancels both stages
        assert (await http.get("/v1/audio/voices")).json()["voices"]
    assert violations(chart) == []


async def test_a_service_may_not_speak_for_another(chart: RunningChart) -> None:
    allowed = [
        f"{user} may publish {subject}"
        for user, subjects in FORBIDDEN.items()
        for subject in subjects
        if not await is_refused(chart, user, subject)
    ]
    assert allowed == []


async def is_refused(chart: RunningChart, user: str, subject: str) -> bool:
    """Whether the broker refuses what `user` publishes."""
    refused = asyncio.Event()

    async def on_error(error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            refused.set()

    client = await nats.connect(
        chart.bus_url, user=user, password=chart.password(user), error_cb=on_error
    )
    try:
        await client.publish(subject, b"")
        async with asyncio.timeout(5):
            await refused.wait()
    except TimeoutError:
        return False
    finally:
        await client.close()
    return True


async def test_the_system_user_hears_disconnects(chart: RunningChart) -> None:
    client = await nats.connect(chart.bus_url, user="system", password=chart.password("system"))
    heard = await client.subscribe("$SYS.ACCOUNT.*.DISCONNECT")
    await client.flush()
    chart.children["vocoder-1"].kill()
    await heard.next_msg(timeout=5)
    await client.close()
