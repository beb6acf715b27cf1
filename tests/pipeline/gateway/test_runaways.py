"""A request whose model lost its text: all of its audio, and an end that says so."""

import json
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import pytest

SPEECH = "/v1/audio/speech"
BODY = {"input": "One two.", "voice": "slt", "response_format": "pcm", "sample_rate": 16_000}


async def lose(performance: Any) -> None:
    await performance.say("One", word=True)
    await performance.end("error", "runaway", "the model lost its text behind 'One'", "One")


@pytest.fixture
def losing(stand: Any) -> Any:
    stand.stage.script = lose
    return stand


async def test_the_socket_names_the_outcome_and_the_word(losing: Any, talk: Any) -> None:
    async with losing.session(voice="slt", seed=0) as socket:
        await talk.say(socket, "One two.")
        messages = await talk.until(socket, "audio.done", "error")
    last = messages[-1]
    assert (last["type"], last["outcome"], last["reached"]) == ("audio.done", "runaway", "One")
    np.testing.assert_array_equal(talk.pcm(messages), talk.sound("One"))


async def test_a_body_ends_without_its_closing_chunk_behind_all_audio(
    losing: Any, talk: Any
) -> None:
    pcm = b""
    with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
        async with losing.http.stream("POST", SPEECH, json=BODY | {"seed": 0}) as response:
            async for part in response.aiter_bytes():
                pcm += part
    np.testing.assert_array_equal(np.frombuffer(pcm, "<i2"), talk.sound("One"))


async def test_a_whole_body_is_refused_and_counted_and_events_end_with_an_error(
    losing: Any,
) -> None:
    whole = await losing.http.post(SPEECH, json=BODY | {"stream": False})
    assert whole.status_code == 500
    error = whole.json()["error"]
    assert (error["code"], error["param"]) == ("runaway", "One")
    assert losing.metric("tts_streams_total", outcome="runaway") == 1
    assert losing.metric("tts_streams_total", outcome="error") == 0
    lines: list[str] = []
    with suppress(httpx.RemoteProtocolError):
        asked = BODY | {"stream_format": "sse"}
        async with losing.http.stream("POST", SPEECH, json=asked) as response:
            async for line in response.aiter_lines():
                lines += [line] if line else []
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "runaway"


async def test_a_request_says_that_it_wants_no_guard(stand: Any) -> None:
    for asked in ({}, {"runaway_guard": False}, {"runaway_guard": True}):
        assert (await stand.http.post(SPEECH, json=BODY | asked)).is_success
    guarded = [job.request.runaway_guard for job in stand.stage.jobs]
    assert guarded == [True, False, True]
