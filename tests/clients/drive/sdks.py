"""The vendors' own SDKs, and the Wyoming client."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import wave
from collections.abc import AsyncIterator
from typing import Any

from common import CUT_AFTER_S, KEY, LONG, SENTENCES, TEXT, Heard, main

Chars = list[tuple[str, float]]


def _openai(url: str, heard: Heard) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=8 * heard.patient)


async def openai_pcm(url: str, heard: Heard, text: str) -> None:
    speaking = _openai(url, heard).audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input=text, response_format="pcm",
        instructions="Speak calmly.",
    )  # fmt: skip
    async with speaking as response:
        async for part in response.iter_bytes():
            heard.audio(len(part) / 48_000)


async def openai_wav(url: str, heard: Heard, text: str) -> None:
    response = await _openai(url, heard).audio.speech.create(
        model="tts-1",
        voice="alloy",
        input=text,
        response_format="wav",
        extra_body={"stream": False},
    )
    with wave.open(io.BytesIO(response.content)) as file:
        heard.audio(file.getnframes() / file.getframerate())


async def openai_packed(url: str, heard: Heard, text: str) -> None:
    """mp3, Opus and FLAC, decoded: a third of the seconds is of each."""
    import av

    for response_format in ("mp3", "opus", "flac"):
        response = await _openai(url, heard).audio.speech.create(
            model="tts-1-hd", voice="nova", input=text, response_format=response_format
        )
        with av.open(io.BytesIO(response.content)) as container:
            samples = [f.samples / f.sample_rate for f in container.decode(audio=0)]
        heard.audio(sum(samples) / 3)


async def openai_events(url: str, heard: Heard, text: str) -> None:
    """`stream_format: sse`: the SDK hands its lines on."""
    import json

    speaking = _openai(url, heard).audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="marin", input=text, response_format="pcm",
        stream_format="sse",
    )  # fmt: skip
    async with speaking as response:
        async for line in response.iter_lines():
            event = json.loads(line.removeprefix("data: ")) if line else {}
            if event.get("type") == "speech.audio.delta":
                heard.audio(len(base64.b64decode(event["audio"])) / 48_000)


async def openai_errors(url: str, heard: Heard, text: str) -> None:
    """Each failure as the SDK's own class."""
    import openai

    found = []
    for change in ({"model": "nobody"}, {"speed": 9.0}, {"input": ""}, {"voice": "hal"}):
        body: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": TEXT, **change}
        try:
            await _openai(url, heard).audio.speech.create(**body)
        except openai.APIStatusError as error:
            found.append(f"{type(error).__name__}:{error.code}")
    heard.error = " ".join(found)


_SOMEBODY = "21m00Tcm4TlvDq8ikWAM"
_PCM: dict[str, Any] = {"output_format": "pcm_16000"}


def _eleven(url: str) -> Any:
    from elevenlabs import AsyncElevenLabs

    return AsyncElevenLabs(base_url=url, api_key=KEY)


async def elevenlabs_stream(url: str, heard: Heard, text: str) -> None:
    async for part in _eleven(url).text_to_speech.stream(_SOMEBODY, text=text, **_PCM):
        heard.audio(len(part) / 32_000)


async def elevenlabs_timed(url: str, heard: Heard, text: str) -> None:
    chars: Chars = []
    speech = _eleven(url).text_to_speech
    async for part in speech.stream_with_timestamps(_SOMEBODY, text=text, **_PCM):
        heard.audio(len(base64.b64decode(part.audio_base_64 or "")) / 32_000)
        if part.alignment is not None:
            _take(heard, part.alignment)
            starts = part.alignment.character_start_times_seconds
            chars += zip(part.alignment.characters, starts, strict=True)
    heard.words = words_of(chars)


def _take(heard: Heard, alignment: Any) -> None:
    heard.spelled += "".join(alignment.characters)
    heard.timed_s = alignment.character_end_times_seconds[-1]


async def elevenlabs_whole(url: str, heard: Heard, text: str) -> None:
    """`with-timestamps`: the SDK tries again only what it does not stream."""
    speech = _eleven(url).text_to_speech
    found = await speech.convert_with_timestamps(_SOMEBODY, text=text, **_PCM)
    heard.audio(len(base64.b64decode(found.audio_base_64)) / 32_000)
    if found.alignment is not None:
        _take(heard, found.alignment)


async def elevenlabs_dialogue(url: str, heard: Heard, text: str) -> None:
    from elevenlabs import DialogueInput

    inputs = [DialogueInput(text=text, voice_id=_SOMEBODY)]
    dialogue = _eleven(url).text_to_dialogue
    async for part in dialogue.stream(inputs=inputs, model_id="eleven_v3", **_PCM):
        heard.audio(len(part) / 32_000)


async def elevenlabs_lists(url: str, heard: Heard, text: str) -> None:
    """Every page of voices, one of them by itself, and the account."""
    client, token, found = _eleven(url), None, []
    while True:
        page = await client.voices.search(page_size=2, next_page_token=token)
        found += page.voices
        token = page.next_page_token
        if not page.has_more:
            break
    alone = await client.voices.get(found[-1].voice_id)
    assert (await client.user.subscription.get()).status == "active"
    assert alone.voice_id == found[-1].voice_id
    heard.spelled = " ".join(voice.voice_id for voice in found)


async def elevenlabs_realtime(url: str, heard: Heard, text: str) -> None:
    """`convert_realtime` dials wss, so `url` is that of a proxy with TLS."""
    from elevenlabs import ElevenLabs

    def speak() -> None:
        words = (f"{word} " for word in text.split())
        speech = ElevenLabs(base_url=url, api_key=KEY).text_to_speech
        model = "eleven_flash_v2_5"
        for part in speech.convert_realtime(_SOMEBODY, text=words, model_id=model, **_PCM):
            heard.audio(len(part) / 32_000)

    await asyncio.to_thread(speak)


def words_of(chars: Chars) -> Chars:
    words: Chars = []
    fresh = True
    for char, start in chars:
        if char == " ":
            fresh = True
        elif fresh:
            words.append((char, start))
            fresh = False
        else:
            words[-1] = (words[-1][0] + char, words[-1][1])
    return words


async def elevenlabs_errors(url: str, heard: Heard, text: str) -> None:
    from elevenlabs.core.api_error import ApiError

    try:
        async for _ in _eleven(url).text_to_speech.stream("x", text=""):
            pass
    except ApiError as error:
        heard.error = f"{error.status_code}:{error.body['detail']['status']}"


RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
VOICE = {"mode": "id", "id": "a0e99841-438c-4a64-b679-ae501e7d6091"}


def _cartesia(url: str) -> Any:
    from cartesia import AsyncCartesia

    return AsyncCartesia(base_url=url, websocket_base_url=url.replace("http", "ws"), api_key=KEY)


async def cartesia_bytes(url: str, heard: Heard, text: str) -> None:
    response = await _cartesia(url).tts.generate(
        model_id="sonic-3", transcript=text, voice=VOICE, output_format=RAW
    )
    heard.audio(len(await response.read()) / 32_000)


async def cartesia_socket(url: str, heard: Heard, text: str) -> None:
    async with _cartesia(url).tts.websocket_connect() as connection:
        await _speak_in_context(connection, heard, text)


async def _speak_in_context(connection: Any, heard: Heard, text: str) -> None:
    context = connection.context(
        model_id="sonic-3", voice=VOICE, output_format=RAW, add_timestamps=True
    )
    for sentence in text.split(". "):
        await context.push(sentence if sentence.endswith(".") else f"{sentence}. ")
    await context.no_more_inputs()
    async for event in context.receive():
        if event.type == "chunk" and event.audio:
            if heard.until_s is not None and heard.seconds >= CUT_AFTER_S:
                await context.cancel()
                return
            heard.seconds += len(event.audio) / 32_000
        elif event.type == "timestamps":
            times = event.word_timestamps
            heard.words += zip(times.words, times.start, strict=True)
        elif event.type == "error":
            heard.error = str(event)


async def cartesia_interrupted(url: str, heard: Heard) -> None:
    """`cancel`, and the next context on the same socket."""
    cut = Heard(until_s=1e9)
    async with _cartesia(url).tts.websocket_connect() as connection:
        await _speak_in_context(connection, cut, LONG)
        await _speak_in_context(connection, heard, SENTENCES[0])
    heard.cut_s = cut.seconds


async def cartesia_errors(url: str, heard: Heard, text: str) -> None:
    import cartesia

    try:
        await _cartesia(url).tts.generate(
            model_id="sonic-3", transcript="", voice=VOICE, output_format=RAW
        )
    except cartesia.APIStatusError as error:
        heard.error = f"{type(error).__name__}:{error.body['error_code']}"  # type: ignore[index]


async def cartesia_lists(url: str, heard: Heard, text: str) -> None:
    """The SDK asks for pages until one is empty."""
    client = _cartesia(url)
    found = [voice.id async for voice in client.voices.list(limit=2)]
    assert (await client.voices.get(found[0])).id == found[0]
    heard.spelled = " ".join(found)


async def deepgram_lists(url: str, heard: Heard, text: str) -> None:
    listed = (await _deepgram(url).manage.v1.models.list()).tts or []
    heard.spelled = " ".join(model.canonical_name for model in listed)


def _deepgram(url: str) -> Any:
    from deepgram import AsyncDeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    socket = url.replace("http", "ws")
    places = DeepgramClientEnvironment(base=url, production=socket, agent=socket, agent_rest=url)
    return AsyncDeepgramClient(api_key=KEY, environment=places)


async def deepgram_http(url: str, heard: Heard, text: str) -> None:
    parts = _deepgram(url).speak.v1.audio.generate(
        text=text, model="aura-2-thalia-en", encoding="linear16", container="none",
        sample_rate=16_000,
    )  # fmt: skip
    async for part in parts:
        heard.audio(len(part) / 32_000)


def _deepgram_socket(url: str) -> Any:
    return _deepgram(url).speak.v1.connect(
        model="aura-2-thalia-en", encoding="linear16", sample_rate="16000"
    )


async def deepgram_socket(url: str, heard: Heard, text: str) -> None:
    async with _deepgram_socket(url) as connection:
        await _say_to_deepgram(connection, text)
        async for message in _until(connection, "Flushed"):
            heard.audio(len(message) / 32_000)
        await connection.send_close()


async def _say_to_deepgram(connection: Any, text: str) -> None:
    from deepgram.speak.v1.types import SpeakV1Text

    for word in text.split():
        await connection.send_text(SpeakV1Text(type="Speak", text=f"{word} "))
    await connection.send_flush()


async def _until(connection: Any, kind: str) -> AsyncIterator[bytes]:
    """Audio up to a message of this kind."""
    while True:
        message = await connection.recv()
        if isinstance(message, bytes):
            yield message
        elif message.type == kind:
            return


async def deepgram_interrupted(url: str, heard: Heard) -> None:
    """`Clear`, and the next turn on the same socket."""
    async with _deepgram_socket(url) as connection:
        await _say_to_deepgram(connection, LONG)
        async for message in _until(connection, "Flushed"):
            heard.cut_s += len(message) / 32_000
            if heard.cut_s >= CUT_AFTER_S:
                break
        await connection.send_clear()
        async for message in _until(connection, "Cleared"):
            heard.stray_s += len(message) / 32_000
        await _say_to_deepgram(connection, SENTENCES[0])
        async for message in _until(connection, "Flushed"):
            heard.audio(len(message) / 32_000)
        await connection.send_close()


async def deepgram_errors(url: str, heard: Heard, text: str) -> None:
    from deepgram.core.api_error import ApiError

    try:
        async for _ in _deepgram(url).speak.v1.audio.generate(text=""):
            pass
    except ApiError as error:
        heard.error = f"{type(error).__name__}:{error.status_code}:{error.body['err_code']}"


def _wyoming() -> Any:
    from wyoming.client import AsyncTcpClient

    return AsyncTcpClient("127.0.0.1", int(os.environ["WYOMING_PORT"]))


async def listen(client: Any, heard: Heard, end: str) -> None:
    from wyoming.audio import AudioChunk
    from wyoming.error import Error

    while (event := await client.read_event()) is not None and event.type != end:
        if AudioChunk.is_type(event.type):
            chunk = AudioChunk.from_event(event)
            heard.audio(len(chunk.audio) / 2 / chunk.rate)
        elif Error.is_type(event.type):
            heard.error = Error.from_event(event).code


async def wyoming_whole(url: str, heard: Heard, text: str) -> None:
    from wyoming.tts import Synthesize

    async with _wyoming() as client:
        await client.write_event(Synthesize(text=text).event())
        await listen(client, heard, "audio-stop")


async def wyoming_streamed(url: str, heard: Heard, text: str) -> None:
    """As Home Assistant does: the whole text comes once more, for servers of before."""
    from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop

    async with _wyoming() as client:
        await client.write_event(SynthesizeStart().event())
        for word in text.split():
            await client.write_event(SynthesizeChunk(text=f"{word} ").event())
        await client.write_event(Synthesize(text=text).event())
        await client.write_event(SynthesizeStop().event())
        await listen(client, heard, "synthesize-stopped")


async def wyoming_errors(url: str, heard: Heard, text: str) -> None:
    from wyoming.tts import Synthesize

    async with _wyoming() as client:
        await client.write_event(Synthesize(text="a" * 20_000).event())
        await listen(client, heard, "audio-stop")


if __name__ == "__main__":
    found = {
        name: driver
        for name, driver in globals().items()
        if name.startswith(("openai_", "elevenlabs_", "cartesia_", "deepgram_", "wyoming_"))
    }
    main(found, {"cartesia_socket": cartesia_interrupted, "deepgram_socket": deepgram_interrupted})
