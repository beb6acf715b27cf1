"""Jobs over HTTP: long texts in portions, stored, fetched by range, cancelled."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from gateway.books.portions import seed_of
from tests.stacks import JOBS, job_card
from tests.waits import TIMEOUT_S, until
from ttscommon.process.tasks import stop

RATE = 16_000
PAUSE_S = 0.25
TEXT = "# The sea\n\nIt was calm.\n\nAda: Who is there?\n\nNo one answered."
SAID = ["The sea", "It was calm.", "Who is there?", "No one answered."]
JOB = {
    "input": TEXT,
    "input_format": "markdown",
    "response_format": "wav",
    "sample_rate": RATE,
    "seed": 5,
    "cast": {"Ada": "awb"},
    "paragraph_pause_s": PAUSE_S,
}


@pytest.fixture
async def working(stand: Any) -> AsyncIterator[Any]:
    """A gateway that takes jobs."""
    task = asyncio.create_task(stand.gateway.job_runner.run())
    yield stand
    await stop(task, again_s=10.0)


def expected(talk: Any) -> bytes:
    silence = np.zeros(round(PAUSE_S * RATE), np.int16)
    parts = []
    for index, text in enumerate(SAID):
        parts += [talk.sound(text, seed_of(5, index, 0)), silence]
    return np.concatenate(parts[:-1]).astype("<i2").tobytes()


async def test_a_job_is_spoken_portion_by_portion_and_fetched_by_range(
    working: Any, talk: Any
) -> None:
    made = await working.http.post(JOBS, json=JOB)
    assert made.status_code == 202, made.text
    job = made.json()
    assert (job["status"], job["seed"], job["progress"]["spoken"]) == ("queued", 5, 0)
    assert made.headers["location"] == f"{JOBS}/{job['id']}"
    card = await job_card(working.http, job["id"])
    assert card["progress"]["share"] == 1.0

    whole = await working.http.get(card["audio_url"])
    assert (whole.status_code, whole.headers["content-type"]) == (200, "audio/wav")
    assert len(whole.content) == card["bytes"]
    said = expected(talk)
    assert whole.content.endswith(said)
    assert b"trainedAlgorithmicMedia" in whole.content[: -len(said)]
    assert card["audio_seconds"] == round(len(said) / 2 / RATE, 3)

    for asked, wanted in {"bytes=40-99": slice(40, 100), "bytes=-7": slice(-7, None)}.items():
        part = await working.http.get(card["audio_url"], headers={"range": asked})
        assert (part.status_code, part.content) == (206, whole.content[wanted])
    beyond = await working.http.get(card["audio_url"], headers={"range": "bytes=999999999-"})
    assert (beyond.status_code, beyond.content) == (416, b"")
    head = await working.http.head(card["audio_url"])
    assert head.headers["content-length"] == str(card["bytes"])

    spoken = {job.request.text: job.request for job in working.stage.jobs}
    assert {one.voice for text, one in spoken.items() if text == SAID[2]} == {"awb"}
    assert {one.priority for one in spoken.values()} == {0}


async def test_a_job_that_is_deleted_is_no_more_and_gives_its_slots_back(
    working: Any, talk: Any
) -> None:
    gate = working.stage.script = talk.gate()
    job = (await working.http.post(JOBS, json=JOB)).json()
    async with asyncio.timeout(TIMEOUT_S):
        await gate.begun.wait()
        running = await working.http.get(f"{JOBS}/{job['id']}/audio")
        assert (running.status_code, running.json()["error"]["code"]) == (409, "not_ready")
        await until(lambda: len(working.stage.jobs) >= len(SAID))
        assert (await working.http.delete(f"{JOBS}/{job['id']}")).json() == {"success": True}
        for one in working.stage.jobs:
            await working.stage.cancelled_event(one.request_id).wait()
    assert len(working.stage.jobs) == len(SAID), "what was stopped is not started again"
    gone = await working.http.get(f"{JOBS}/{job['id']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")
    assert (await working.http.get(JOBS)).json()["data"] == []


@pytest.mark.parametrize("settings", [{"max_jobs": 1, "max_job_chars": 100}], indirect=True)
async def test_what_cannot_be_a_job_is_refused_at_once(stand: Any) -> None:
    assert (await stand.http.post(JOBS, json=JOB)).status_code == 202
    for change, status, code in (
        ({}, 403, "quota_exceeded"),
        ({"input": "word " * 40}, 400, "text_too_long"),
        ({"input": " \n"}, 400, "bad_request"),
        ({"cast": {"Ada": "nobody"}}, 400, "unknown_voice"),
        ({"response_format": "ogg"}, 400, "unsupported"),
        ({"turns": [{"text": "hello"}]}, 400, "unsupported"),
    ):
        refused = await stand.http.post(JOBS, json={**JOB, **change})
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), change
    empty: tuple[dict[str, Any], ...] = ({"json": {}}, {"files": {"file": ("a.txt", b" ")}})
    for sent in empty:
        error = (await stand.http.post(JOBS, **sent)).json()["error"]
        assert (error["param"], error["code"]) == ("input", "bad_request")
        assert "'input'" in error["message"]


async def test_a_long_text_comes_as_json_or_as_a_file(stand: Any) -> None:
    text = 'He said "so". \\ \n\n' * 4000
    for sent in ({"json": {"input": text}}, {"files": {"file": ("a.txt", text.encode())}}):
        made = await stand.http.post(JOBS, **sent)
        assert made.status_code == 202, made.text
        assert made.json()["progress"]["characters"] == 4000 * len('He said "so". \\')


@pytest.mark.parametrize("settings", [{"job_spare_slots": 62}], indirect=True)
async def test_a_job_gives_a_slot_to_a_listener_and_sounds_the_same(
    working: Any, talk: Any
) -> None:
    """Of 64 slots it takes two."""
    released = asyncio.Event()

    async def portions_wait(performance: Any) -> None:
        if performance.job.request.priority == 0:
            await released.wait()
        await talk.recite(performance)

    working.stage.script = portions_wait
    job = (await working.http.post(JOBS, json=JOB)).json()
    async with asyncio.timeout(TIMEOUT_S):
        await until(lambda: len(working.stage.jobs) >= 2)
        first, second = (one.request_id for one in working.stage.jobs)
        speech = {"model": "tts-1", "input": "Hello.", "response_format": "pcm"}
        assert (await working.http.post("/v1/audio/speech", json=speech)).status_code == 200
        await working.stage.cancelled_event(second).wait()
    assert not working.stage.cancelled_event(first).is_set()
    released.set()
    card = await job_card(working.http, job["id"])
    assert (await working.http.get(card["audio_url"])).content.endswith(expected(talk))
    assert working.metric("tts_book_portions_total", outcome="gave_way") == 1
    assert working.metric("tts_book_portions_total", outcome="made") == len(SAID)
    assert working.metric("tts_streams_total") == 1
