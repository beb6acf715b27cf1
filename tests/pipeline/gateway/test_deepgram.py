"""Deepgram's protocol, as its clients speak it."""

import asyncio
import json
from typing import Any, Final

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.waits import TIMEOUT_S

TEXT = "The tide is in."
QUERY = "model=aura-2-thalia-en&encoding=linear16&sample_rate=16000&mip_opt_out=true"


def url(stand: Any, query: str = QUERY, version: str = "v1") -> str:
    return str(stand.url.replace("http", "ws") + f"/{version}/speak?{query}")


async def say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


ENCODINGS: Final[tuple[tuple[str, str, int | None], ...]] = (
    ("", "audio/mpeg", None),
    ("?encoding=linear16&container=none&sample_rate=24000.0", "audio/pcm", 48_000),
    ("?encoding=linear16", "audio/wav", None),
    ("?encoding=mulaw&container=none", "audio/basic", 8000),
    ("?encoding=opus&container=ogg", "audio/ogg", None),
    ("?encoding=flac&sample_rate=16000", "audio/flac", None),
)


async def test_encodings_over_http(stand: Any) -> None:
    for query, media_type, bytes_a_second in ENCODINGS:
        response = await stand.http.post(f"/v1/speak{query}", json={"text": TEXT})
        assert response.headers["content-type"].startswith(media_type), query
        if bytes_a_second is not None:
            seconds = len(response.content) / bytes_a_second
            assert seconds == pytest.approx(len(TEXT) * 0.01, abs=0.001)
    named = {"model": "aura-2-thalia-en, 声\n"}
    response = await stand.http.post("/v1/speak", params=named, json={"text": TEXT})
    assert response.status_code == 200
    assert response.headers["dg-model-name"] == "aura-2-thalia-en%2C%20%E5%A3%B0%0A"


async def test_turns_of_flux_begin_and_end(stand: Any, talk: Any) -> None:
    async with connect(url(stand, version="v2")) as socket:
        await say(socket, "Speak", text=TEXT)
        await say(socket, "Flush")
        messages = await talk.until(socket, "Flushed")
        await say(socket, "Flush")
        nothing = await talk.until(socket, "Flushed")
        await say(socket, "Configure", speed=9)
        failure = (await talk.until(socket, "ConfigureFailure"))[-1]
        await say(socket, "Configure", speed=1.1)
        await talk.until(socket, "ConfigureSuccess")
        await say(socket, "Speak", text="And out.")
        await say(socket, "Close")
        total = (await talk.until(socket, "SessionMetadata"))[-1]
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    told = [message for message in messages if message["type"] != "pcm"]
    kinds = ["Connected", "SpeechStarted", "SpeechMetadata", "Flushed"]
    assert [message["type"] for message in told] == kinds
    assert len({message["speech_id"] for message in told[1:]}) == 1
    assert len(talk.pcm(messages)) == len(talk.sound(TEXT))
    metadata = told[2]
    assert metadata["audio_duration_ms"] == 10 * len(TEXT)
    assert metadata["input_character_count"] == len(TEXT)
    assert nothing[-2]["audio_duration_ms"] == 0
    assert (failure["field"], failure["value"]) == ("speed", 9)
    assert total["total_input_character_count"] == len(TEXT) + len("And out.")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_an_interruption_of_flux_says_what_was_heard(stand: Any, talk: Any) -> None:
    held = asyncio.Event()

    async def script(performance: Any) -> None:
        await performance.say("The tide ", word=True)
        await performance.say("is in.", word=True)
        await held.wait()

    stand.stage.script = script
    async with connect(url(stand, version="v2")) as socket:
        await say(socket, "Interrupt")
        warning = (await talk.until(socket, "Warning"))[-1]
        await say(socket, "Speak", text=TEXT)
        await say(socket, "Flush")
        async with asyncio.timeout(TIMEOUT_S):
            sounded = 0
            while sounded < 2 * 160 * len(TEXT):
                received = await socket.recv()
                sounded += len(received) if isinstance(received, bytes) else 0
        offset = {"type": "time_ms", "value": 60}
        await say(socket, "Interrupt", playback_offset=offset)
        told = (await talk.until(socket, "SpeechInterrupted"))[-1]
        await say(socket, "Interrupt", playback_offset={"value": -1})
        held.set()
        stand.stage.script = talk.recite
        await say(socket, "Speak", text="Next.")
        await say(socket, "Flush")
        following = await talk.until(socket, "Flushed")
    assert warning["code"] == "NO_AUDIO_GENERATED"
    assert told["audio_played_ms"] == 60
    assert (told["text_spoken"].strip(), told["text_remaining"]) == ("The tide", "is in.")
    assert len(talk.pcm(following)) == len(talk.sound("Next."))


async def test_models_are_listed_for_deepgrams_clients(stand: Any) -> None:
    key = {"authorization": "Token k"}
    found = (await stand.http.get("/v1/models", headers=key)).json()
    assert [model["canonical_name"] for model in found["tts"]][:2] == ["slt", "awb"]
    assert found["tts"][1]["metadata"]["tags"] == ["masculine"]
    assert (await stand.http.get("/v1/models/awb", headers=key)).json()["languages"] == ["en-GB"]
    missing = await stand.http.get("/v1/models/hal", headers=key)
    assert (missing.status_code, missing.json()["err_code"]) == (404, "NOT_FOUND")
