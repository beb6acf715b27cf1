"""A request whose model lost its text: all of its audio, and an end that says so."""

import json
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from tests.pipeline.gateway.conftest import sound_of

BODY = {"input": "One two.", "voice": "slt", "response_format": "pcm", "sample_rate": 16_000}


async def lose(performance: Any) -> None:
    await performance.say("One", word=True)
    await performance.end("error", "runaway", "the model lost its text behind 'One'", "One")


@pytest.fixture
def losing(stand: Any) -> Any:
    stand.stage.script = lose
    return stand


async def test_the_socket_names_the_outcome_and_the_word(losing: Any) -> None:
    pcm = b""
    async with connect(losing.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket:
        for message in (
            {"type": "session.config", "voice": "slt", "seed": 0},
            {"type": "input.text", "text": "One two."},
            {"type": "input.done"},
        ):
            await socket.send(json.dumps(message))
        last: dict[str, Any] = {}
        while last.get("type") not in ("audio.done", "error"):
            data = await socket.recv()
            pcm += data if isinstance(data, bytes) else b""
            last = {} if isinstance(data, bytes) else json.loads(data)
    assert (last["type"], last["outcome"], last["reached"]) == ("audio.done", "runaway", "One")
    np.testing.assert_array_equal(np.frombuffer(pcm, "<i2"), sound_of("One"))


async def test_a_body_ends_without_its_closing_chunk_behind_all_audio(losing: Any) -> None:
    asked, pcm = BODY | {"seed": 0}, b""

    async def read() -> None:
        nonlocal pcm
        async with (
            httpx.AsyncClient(base_url=losing.url) as client,
            client.stream("POST", "/v1/audio/speech", json=asked) as response,
        ):
            async for part in response.aiter_bytes():
                pcm += part

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    np.testing.assert_array_equal(np.frombuffer(pcm, "<i2"), sound_of("One"))


async def test_a_whole_body_is_refused_and_events_end_with_an_error(losing: Any) -> None:
    async with httpx.AsyncClient(base_url=losing.url) as client:
        whole = await client.post("/v1/audio/speech", json=BODY | {"stream": False})
        assert whole.status_code == 500
        error = whole.json()["error"]
        assert (error["code"], error["param"]) == ("runaway", "One")
        lines: list[str] = []
        asked = BODY | {"stream_format": "sse"}
        with suppress(httpx.RemoteProtocolError):
            async with client.stream("POST", "/v1/audio/speech", json=asked) as response:
                async for line in response.aiter_lines():
                    lines += [line] if line else []
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "runaway"


async def test_it_is_counted_as_an_outcome_of_its_own(losing: Any) -> None:
    async with httpx.AsyncClient(base_url=losing.url) as client:
        await client.post("/v1/audio/speech", json=BODY | {"stream": False})
    assert losing.metric("tts_streams_total", outcome="runaway") == 1
    assert losing.metric("tts_streams_total", outcome="error") == 0


async def test_a_request_says_that_it_wants_no_guard(stand: Any) -> None:
    heard = []

    async def note(performance: Any) -> None:
        heard.append(performance.job.request.runaway_guard)
        await performance.say("One")
        await performance.end()

    stand.stage.script = note
    async with httpx.AsyncClient(base_url=stand.url) as client:
        for asked in ({}, {"runaway_guard": False}, {"runaway_guard": True}):
            assert (await client.post("/v1/audio/speech", json=BODY | asked)).is_success
    assert heard == [True, False, True]
