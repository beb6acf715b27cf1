"""Texts that hold nothing with a sound: silence for vendors' clients, an error for our own."""

import base64
import io
import json
from typing import Any

import pytest
import soundfile
from websockets.asyncio.client import connect

NOTHING = "🎉 ..."
SILENCE = 0.2


async def messages(socket: Any, last: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not (found and last(found[-1])):
        data = await socket.recv()
        found.append({"pcm": data} if isinstance(data, bytes) else json.loads(data))
    return found


async def test_elevenlabs_clients_hear_a_short_silence(stand: Any) -> None:
    base = stand.url.replace("http", "ws")
    query = "output_format=pcm_16000"
    async with connect(f"{base}/v1/text-to-speech/anyone/stream-input?{query}") as socket:
        for text in (" ", NOTHING, ""):
            await socket.send(json.dumps({"text": text}))
        found = await messages(socket, lambda message: message.get("isFinal"))
    audio = b"".join(base64.b64decode(m["audio"]) for m in found if m.get("audio"))
    assert audio == bytes(2 * int(SILENCE * 16_000))


async def test_cartesia_clients_hear_a_short_silence(stand: Any) -> None:
    asked = {"context_id": "a", "transcript": NOTHING, "model_id": "sonic",
            "output_format": {"container": "raw", "sample_rate": 8000}}  # fmt: skip
    async with connect(stand.url.replace("http", "ws") + "/tts/websocket") as socket:
        await socket.send(json.dumps(asked))
        found = await messages(socket, lambda message: message.get("done"))
    assert [message["type"] for message in found] == ["chunk", "done"]
    assert base64.b64decode(found[0]["data"]) == bytes(2 * int(SILENCE * 8000))


async def test_deepgram_clients_hear_a_short_silence(stand: Any) -> None:
    async with connect(stand.url.replace("http", "ws") + "/v1/speak?sample_rate=8000") as socket:
        await socket.send(json.dumps({"type": "Speak", "text": NOTHING}))
        await socket.send(json.dumps({"type": "Flush"}))
        found = await messages(socket, lambda message: message.get("type") == "Flushed")
    assert b"".join(m.get("pcm", b"") for m in found) == bytes(2 * int(SILENCE * 8000))


@pytest.mark.parametrize(("form", "streamed"), [("pcm", True), ("wav", False), ("mp3", True)])
async def test_openais_clients_hear_a_short_silence_for_emoji_alone(
    stand: Any, form: str, streamed: bool
) -> None:
    """Open WebUI sends an answer sentence by sentence."""
    body = {"input": "🎉 🎉", "response_format": form, "stream": streamed}
    answer = await stand.http.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    samples = int(SILENCE * 24_000)
    if form == "mp3":
        assert soundfile.info(io.BytesIO(answer.content)).samplerate == 24_000
    elif form == "pcm":
        assert answer.content == bytes(2 * samples)
    else:
        assert soundfile.info(io.BytesIO(answer.content)).frames == samples
    assert stand.stage.jobs == []
    refused = await stand.http.post("/v1/audio/speech", json={"input": "..."})
    assert refused.json()["error"]["code"] == "nothing_to_say"


async def test_what_a_model_finds_nothing_in_is_silent_too(stand: Any) -> None:
    async def refuse(performance: Any) -> None:
        await performance.end("error", "nothing_to_say", "nothing can be spoken")

    stand.stage.script = refuse
    async with connect(stand.url.replace("http", "ws") + "/v1/speak?sample_rate=8000") as socket:
        await socket.send(json.dumps({"type": "Speak", "text": "你好"}))
        await socket.send(json.dumps({"type": "Flush"}))
        found = await messages(socket, lambda message: message.get("type") == "Flushed")
    assert b"".join(m.get("pcm", b"") for m in found) == bytes(2 * int(SILENCE * 8000))


async def test_what_was_dropped_is_told_at_the_end(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="Hi <voice name='x'>you</voice> <empha")
        await talk.say(socket, "sis>there</emphasis>.")
        done = (await talk.until(socket, "audio.done"))[-1]
        assert done["ignored"] == ["markup:voice", "markup:emphasis"]
        await talk.say(socket, "Hi <audio src='x'/>you.", context_id="a")
        done = (await talk.until(socket, "audio.done"))[-1]
        assert done["ignored"] == ["markup:audio"]
