"""Texts that hold nothing with a sound: silence for vendors' clients, an error for our own."""

import io
import json
from typing import Any

import soundfile
from websockets.asyncio.client import connect

NOTHING = "🎉 ..."
SILENCE = 0.2


async def test_openais_clients_hear_a_short_silence_for_emoji_alone(stand: Any) -> None:
    """Open WebUI sends an answer sentence by sentence."""
    samples = int(SILENCE * 24_000)
    for form, streamed in (("pcm", True), ("wav", False), ("mp3", True)):
        body = {"input": "🎉 🎉", "response_format": form, "stream": streamed}
        answer = await stand.http.post("/v1/audio/speech", json=body)
        assert answer.status_code == 200, answer.text
        if form == "pcm":
            assert answer.content == bytes(2 * samples)
            continue
        found = soundfile.info(io.BytesIO(answer.content))
        assert found.samplerate == 24_000
        assert form == "mp3" or found.frames == samples
    assert stand.stage.jobs == []


async def test_what_a_model_finds_nothing_in_is_silent_too(stand: Any, talk: Any) -> None:
    async def refuse(performance: Any) -> None:
        await performance.end("error", "nothing_to_say", "nothing can be spoken")

    stand.stage.script = refuse
    for text in (NOTHING, "你好"):
        async with connect(stand.url.replace("http", "ws") + "/v1/speak?sample_rate=8000") as it:
            await it.send(json.dumps({"type": "Speak", "text": text}))
            await it.send(json.dumps({"type": "Flush"}))
            heard = talk.pcm(await talk.until(it, "Flushed"))
        assert len(heard) == int(SILENCE * 8000)
        assert not heard.any()


async def test_what_was_dropped_is_told_at_the_end(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="Hi <voice name='x'>you</voice> <empha")
        await talk.say(socket, "sis>there</emphasis>.")
        done = (await talk.until(socket, "audio.done"))[-1]
        assert done["ignored"] == ["markup:voice", "markup:emphasis"]
        await talk.say(socket, "Hi <audio src='x'/>you.", context_id="a")
        done = (await talk.until(socket, "audio.done"))[-1]
        assert done["ignored"] == ["markup:audio"]
