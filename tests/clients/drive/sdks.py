"""The vendors' own SDKs."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import wave
from typing import Any

from common import SENTENCES, TEXT, Heard, main

KEY = os.environ.get("CLIENT_KEY", "no-key")


async def openai_pcm(url: str) -> Heard:
    import openai

    heard = Heard()
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
    speaking = client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input=TEXT, response_format="pcm",
        instructions="Speak calmly.",
    )  # fmt: skip
    async with speaking as response:
        async for part in response.iter_bytes():
            heard.audio(len(part) / 48_000)
    return heard


async def openai_wav(url: str) -> Heard:
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
    response = await client.audio.speech.create(
        model="tts-1",
        voice="alloy",
        input=TEXT,
        response_format="wav",
        extra_body={"stream": False},
    )
    heard = Heard()
    with wave.open(io.BytesIO(response.content)) as file:
        heard.audio(file.getnframes() / file.getframerate())
    return heard


async def openai_errors(url: str) -> Heard:
    """Each failure as the SDK's own class."""
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    found = []
    for change in ({"model": "nobody"}, {"speed": 9.0}, {"input": ""}, {"voice": "hal"}):
        body: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": TEXT, **change}
        try:
            await client.audio.speech.create(**body)
        except openai.APIStatusError as error:
            found.append(f"{type(error).__name__}:{error.code}")
    return Heard(error=" ".join(found))


async def openai_retries(url: str) -> Heard:
    """A key has one stream: the second of two waits as it is told and tries again."""
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=8)

    async def speak() -> float:
        response = await client.audio.speech.create(
            model="tts-1", voice="alloy", input=TEXT, response_format="pcm"
        )
        return len(response.content) / 48_000

    heard = Heard()
    for seconds in await asyncio.gather(speak(), speak()):
        heard.audio(seconds)
    return heard


async def openai_unauthorised(url: str) -> Heard:
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
    try:
        await client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
    except openai.AuthenticationError as error:
        return Heard(error=type(error).__name__)
    return Heard()


def _eleven(url: str) -> Any:
    from elevenlabs import AsyncElevenLabs

    return AsyncElevenLabs(base_url=url, api_key=KEY)


async def elevenlabs_stream(url: str) -> Heard:
    heard = Heard()
    parts = _eleven(url).text_to_speech.stream(
        "21m00Tcm4TlvDq8ikWAM", text=TEXT, output_format="pcm_16000"
    )
    async for part in parts:
        heard.audio(len(part) / 32_000)
    return heard


async def elevenlabs_timed(url: str) -> Heard:
    heard = Heard()
    parts = _eleven(url).text_to_speech.stream_with_timestamps(
        "21m00Tcm4TlvDq8ikWAM", text=TEXT, output_format="pcm_16000"
    )
    chars: list[tuple[str, float]] = []
    async for part in parts:
        heard.audio(len(base64.b64decode(part.audio_base_64 or "")) / 32_000)
        if part.alignment is not None:
            starts = part.alignment.character_start_times_seconds
            chars += zip(part.alignment.characters, starts, strict=True)
    heard.words = words_of(chars)
    return heard


def words_of(chars: list[tuple[str, float]]) -> list[tuple[str, float]]:
    words: list[tuple[str, float]] = []
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


async def elevenlabs_errors(url: str) -> Heard:
    from elevenlabs.core.api_error import ApiError

    try:
        async for _ in _eleven(url).text_to_speech.stream("x", text=""):
            pass
    except ApiError as error:
        return Heard(error=f"{error.status_code}:{error.body['detail']['status']}")
    return Heard()


RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
VOICE = {"mode": "id", "id": "a0e99841-438c-4a64-b679-ae501e7d6091"}


def _cartesia(url: str) -> Any:
    from cartesia import AsyncCartesia

    return AsyncCartesia(base_url=url, websocket_base_url=url.replace("http", "ws"), api_key=KEY)


async def cartesia_bytes(url: str) -> Heard:
    heard = Heard()
    response = await _cartesia(url).tts.generate(
        model_id="sonic-3", transcript=TEXT, voice=VOICE, output_format=RAW
    )
    heard.audio(len(await response.read()) / 32_000)
    return heard


async def cartesia_socket(url: str) -> Heard:
    heard = Heard()
    async with _cartesia(url).tts.websocket_connect() as connection:
        context = connection.context(
            model_id="sonic-3", voice=VOICE, output_format=RAW, add_timestamps=True,
        )  # fmt: skip
        for sentence in SENTENCES:
            await context.push(sentence + " ")
        await context.no_more_inputs()
        async for event in context.receive():
            if event.type == "chunk" and event.audio:
                heard.audio(len(event.audio) / 32_000)
            elif event.type == "timestamps":
                times = event.word_timestamps
                heard.words += zip(times.words, times.start, strict=True)
            elif event.type == "error":
                heard.error = str(event)
    return heard


def _deepgram(url: str) -> Any:
    from deepgram import AsyncDeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    socket = url.replace("http", "ws")
    places = DeepgramClientEnvironment(base=url, production=socket, agent=socket, agent_rest=url)
    return AsyncDeepgramClient(api_key=KEY, environment=places)


async def deepgram_http(url: str) -> Heard:
    heard = Heard()
    parts = _deepgram(url).speak.v1.audio.generate(
        text=TEXT, model="aura-2-thalia-en", encoding="linear16", container="none",
        sample_rate=16_000,
    )  # fmt: skip
    async for part in parts:
        heard.audio(len(part) / 32_000)
    return heard


async def deepgram_socket(url: str) -> Heard:
    from deepgram.speak.v1.types import SpeakV1Text

    heard = Heard()
    connecting = _deepgram(url).speak.v1.connect(
        model="aura-2-thalia-en", encoding="linear16", sample_rate="16000"
    )
    async with connecting as connection:
        for sentence in SENTENCES:
            await connection.send_text(SpeakV1Text(type="Speak", text=sentence + " "))
        await connection.send_flush()
        while True:
            message = await connection.recv()
            if isinstance(message, bytes):
                heard.audio(len(message) / 32_000)
            elif message.type == "Flushed":
                break
        await connection.send_close()
    return heard


async def wyoming_whole(url: str) -> Heard:
    from wyoming.audio import AudioChunk, AudioStop
    from wyoming.client import AsyncTcpClient
    from wyoming.tts import Synthesize

    heard = Heard()
    async with AsyncTcpClient("127.0.0.1", int(os.environ["WYOMING_PORT"])) as client:
        await client.write_event(Synthesize(text=TEXT).event())
        while (event := await client.read_event()) is not None:
            if AudioChunk.is_type(event.type):
                chunk = AudioChunk.from_event(event)
                heard.audio(len(chunk.audio) / 2 / chunk.rate)
            elif AudioStop.is_type(event.type):
                break
    return heard


async def wyoming_streamed(url: str) -> Heard:
    from wyoming.audio import AudioChunk
    from wyoming.client import AsyncTcpClient
    from wyoming.tts import (
        Synthesize,
        SynthesizeChunk,
        SynthesizeStart,
        SynthesizeStop,
        SynthesizeStopped,
    )

    heard = Heard()
    async with AsyncTcpClient("127.0.0.1", int(os.environ["WYOMING_PORT"])) as client:
        await client.write_event(SynthesizeStart().event())
        for word in TEXT.split():
            await client.write_event(SynthesizeChunk(text=f"{word} ").event())
        await client.write_event(Synthesize(text=TEXT).event())
        await client.write_event(SynthesizeStop().event())
        while (event := await client.read_event()) is not None:
            if AudioChunk.is_type(event.type):
                chunk = AudioChunk.from_event(event)
                heard.audio(len(chunk.audio) / 2 / chunk.rate)
            elif SynthesizeStopped.is_type(event.type):
                break
    return heard


if __name__ == "__main__":
    main(
        {
            name: found
            for name, found in globals().items()
            if name.count("_") == 1 and callable(found)
        }
    )
