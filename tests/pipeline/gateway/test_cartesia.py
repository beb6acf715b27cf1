"""Cartesia's protocol, as its clients speak it."""

import json
from typing import Any, Final

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.unit.ttscommon.sound.test_recordings import wav

TEXT = "The tide is in."
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
REQUEST = {"model_id": "sonic-3", "voice": {"mode": "id", "id": "x"}, "output_format": RAW}


def url(stand: Any) -> str:
    return str(stand.url.replace("http", "ws") + "/tts/websocket?cartesia_version=2025-04-16")


async def say(socket: ClientConnection, context: str, transcript: str, **more: Any) -> None:
    message = {**REQUEST, "context_id": context, "transcript": transcript, **more}
    await socket.send(json.dumps(message))


CONTAINERS: Final[tuple[tuple[dict[str, Any], str, bytes], ...]] = (
    (RAW, "audio/pcm;rate=16000;channels=1", b""),
    ({**RAW, "container": "wav", "encoding": "pcm_f32le"}, "audio/wav", b"RIFF"),
    ({"container": "mp3", "sample_rate": 44_100, "bit_rate": 128_000}, "audio/mpeg", b"ID3"),
    ({**RAW, "encoding": "pcm_mulaw", "sample_rate": 8000}, "", b""),
)


async def test_bytes_in_every_container(stand: Any) -> None:
    for output, media_type, magic in CONTAINERS:
        body = {**REQUEST, "output_format": output, "transcript": TEXT, "language": None}
        response = await stand.http.post("/tts/bytes", json=body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith(media_type)
        assert response.content.startswith(magic)


async def test_sentences_of_a_context_are_one_request_with_running_times(
    stand: Any, talk: Any
) -> None:
    more = {"continue": True, "add_timestamps": True, "max_buffer_delay_ms": 0}
    async with connect(url(stand)) as socket:
        await say(socket, "c", "One.", **more)
        messages = await talk.until(socket, "timestamps")
        await say(socket, "c", "Two.", **more)
        await say(socket, "c", "", **{"continue": False})
        messages += await talk.until(socket, "done")
    times = [m["word_timestamps"] for m in messages if m["type"] == "timestamps"]
    starts = [s for t in times for s in t["start"]]
    assert starts == sorted(starts)
    assert starts[-1] > 0.03
    assert len(stand.stage.jobs) == 1
    assert " ".join(w for t in times for w in t["words"]).split() == ["One.", "Two."]
    assert messages[-1] == {
        "type": "done", "context_id": "c", "done": True, "status_code": 200,
    }  # fmt: skip


async def test_voices_are_turned_over_to_the_last_page(stand: Any) -> None:
    """The SDK goes on behind the last voice until there is no more."""
    seen: list[str] = []
    while True:
        query = {"limit": 3, **({"starting_after": seen[-1]} if seen else {})}
        page = (await stand.http.get("/voices", params=query)).json()
        seen += [voice["id"] for voice in page["data"]]
        if not page["data"]:
            break
        assert page["has_more"] is (len(seen) < 4)
    assert seen == ["slt", "awb", "vesper", "vesper-low"]
    before = (await stand.http.get("/voices?ending_before=vesper&limit=1")).json()
    assert [voice["id"] for voice in before["data"]] == ["awb"]
    (male,) = (await stand.http.get("/voices?gender=masculine")).json()["data"]
    assert (male["id"], male["locales"]) == ("awb", [{"locale": "en-GB", "is_native": True}])


async def test_a_voice_can_be_read_made_and_deleted(cloning: Any) -> None:
    stand = cloning
    assert (await stand.http.get("/voices/slt")).json()["gender"] == "feminine"
    missing = await stand.http.get("/voices/hal")
    assert (missing.status_code, missing.json()["error_code"]) == (404, "not_found")
    clip, form = {"clip": wav()}, {"name": "Anna Smith", "language": "en"}
    unstated = await stand.http.post("/voices", data=form, files=clip)
    assert "consent" in unstated.json()["message"]
    stated = {"x-consent": "I, Anna, agree."}
    made = await stand.http.post("/voices/clone", data=form, files=clip, headers=stated)
    assert (made.json()["id"], made.json()["is_owner"]) == ("Anna-Smith", True)
    again = (await stand.http.post("/voices", data=form, files=clip, headers=stated)).json()
    assert again["id"].startswith("Anna-Smith-")
    listed = (await stand.http.get("/voices?is_owner=true")).json()["data"]
    assert [voice["id"] for voice in listed] == ["Anna-Smith", again["id"]]
    for voice in listed:
        assert (await stand.http.delete(f"/voices/{voice['id']}")).status_code == 204
    assert (await stand.http.get("/voices/Anna-Smith")).status_code == 404


async def test_volume_is_followed_and_the_language_is_told(stand: Any, talk: Any) -> None:
    config = {"volume": 0.5, "emotion": "calm"}
    body = {**REQUEST, "transcript": TEXT, "language": "en", "generation_config": config}
    response = await stand.http.post("/tts/bytes", json=body)
    request = stand.stage.jobs[-1].request
    made = talk.sound(TEXT, request.seed)
    assert np.frombuffer(response.content, "<i2") == pytest.approx(made / 2, abs=1)
    assert response.headers["x-ignored"] == "instructions"
    assert request.language == "en"
    told = (await stand.http.post("/tts/sse", json={**body, "context_id": "mine"})).text
    events = [json.loads(event.split("data: ")[1]) for event in told.split("\n\n") if event]
    assert {event["context_id"] for event in events} == {"mine"}
