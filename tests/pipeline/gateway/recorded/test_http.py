"""Speech over HTTP in every protocol, and Wyoming's events, held to recorded sessions."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from gateway.protocols.wyoming import WyomingServer, event
from tests.pipeline.gateway.recorded.tape import Play, Tape, ask

SPEECH: Final = "/v1/audio/speech"
OPENAI: Final = {"model": "tts-1", "voice": "alloy", "seed": 4, "sample_rate": 16_000}
RAW: Final = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}


async def test_openai(stand: Any, tape: Tape, play: Play) -> None:
    async def speak(said: str, name: str, **more: Any) -> str:
        tape.title(name)
        return await ask(tape, stand.url, "POST", SPEECH, {**OPENAI, "input": said, **more})

    pcm = {"response_format": "pcm"}
    await speak("The tide is in.", "samples as they are made", **pcm)
    await speak("The tide is in.", "samples, whole", **pcm, stream=False)
    await speak("The tide is in.", "a WAV as it is made", response_format="wav")
    await speak("The tide is in.", "a WAV, whole", response_format="wav", stream=False)
    await speak("The tide is in.", "events", **pcm, stream_format="sse")
    await speak("The tide is in.", "faster than the model can", **pcm, speed=2.0)
    await speak("...", "nothing to say", **pcm)
    await speak("refuse me", "a stage that takes nothing", **pcm)
    await speak("fail now", "a body that is cut", **pcm)
    await speak("fail now", "events that are cut", **pcm, stream_format="sse")
    await speak("fail now", "a body that never begins", **pcm, stream=False)
    await speak("hi", "no such format", response_format="midi")
    head = await speak("hi there", "a request that can be resumed", **pcm, resumable=True)

    tape.title("the rest of it")
    named = dict(re.findall(r"^(x-[\w-]+): (\S+)", head, re.M))
    path = f"{SPEECH}/{named['x-request-id']}?from_sample=160&sample_rate=16000"
    await ask(tape, stand.url, "GET", path, x_resume_token=named["x-resume-token"])
    await ask(tape, stand.url, "GET", path, x_resume_token="wrong")


async def test_http_vendors(stand: Any, tape: Tape, play: Play) -> None:
    for said in ("The tide is in.", "fail now", "..."):
        for path in ("", "/stream", "/with-timestamps", "/stream/with-timestamps"):
            tape.title(f"elevenlabs {path}: {said}")
            path = f"/v1/text-to-speech/x{path}?output_format=pcm_16000"
            await ask(tape, stand.url, "POST", path, {"text": said})
        asked = {"model_id": "sonic-3", "output_format": RAW, "transcript": said}
        for path in ("/tts/bytes", "/tts/sse"):
            tape.title(f"cartesia {path}: {said}")
            await ask(tape, stand.url, "POST", path, {**asked, "add_timestamps": True})
        tape.title(f"deepgram: {said}")
        path = "/v1/speak?encoding=linear16&container=none&sample_rate=16000"
        await ask(tape, stand.url, "POST", path, {"text": said})


class Events:
    """A Wyoming connection with a tape in it."""

    def __init__(
        self, tape: Tape, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._tape = tape
        self._reader = reader
        self.writer = writer

    def say(self, kind: str, **data: Any) -> None:
        self._tape.sent(f"{kind} {json.dumps(data)}")
        self.writer.write(event(kind, data))

    async def until(self, kind: str | None) -> None:
        """Hear up to an event of this kind; None: up to the end."""
        async with asyncio.timeout(15):
            while line := await self._reader.readline():
                head = json.loads(line)
                data = await self._reader.readexactly(head["data_length"])
                self._tape.received(line.decode().strip())
                self._tape.received(data.decode())
                if size := head.get("payload_length"):
                    self._tape.received(await self._reader.readexactly(size))
                if head["type"] == kind:
                    return
        self._tape.note("closed")


@asynccontextmanager
async def connected(tape: Tape, port: int) -> AsyncIterator[Events]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Events(tape, reader, writer)
    writer.close()


@pytest.mark.parametrize("settings", [{"max_queued_requests": 2}], indirect=True)
async def test_wyoming(stand: Any, tape: Tape, play: Play) -> None:
    async with WyomingServer(stand.gateway.context, "127.0.0.1", 0) as server:
        tape.title("whole texts in order, one too many, one that fails")
        async with connected(tape, server.port) as wire:
            wire.say("describe")
            await wire.until("info")
            wire.say("ping", text="hello")
            await wire.until("pong")
            wire.say("synthesize", text="hold on", voice={"name": "awb"})
            await wire.until("audio-chunk")
            wire.say("synthesize", text="fail now")
            wire.say("synthesize", text="one too many")
            await wire.until("error")
            play.go.set()
            await wire.until("audio-stop")
            await wire.until("audio-stop")
            wire.say("synthesize", text="...")
            await wire.until("audio-stop")
            wire.say("synthesize", text=5)
            await wire.until("error")
            wire.writer.write(b"[]\n")
            await wire.until(None)

        tape.title("a text as it is written")
        async with connected(tape, server.port) as wire:
            wire.say("synthesize-start", voice={"language": "en"})
            wire.say("synthesize-chunk", text="The tide ")
            await wire.until("audio-chunk")
            wire.say("synthesize-chunk", text="is in.")
            wire.say("synthesize", text="The tide is in.")
            wire.say("synthesize-stop")
            await wire.until("synthesize-stopped")
            wire.writer.write_eof()
            await wire.until(None)

        tape.title("a server that ends")
        async with connected(tape, server.port) as wire:
            play.go.clear()
            wire.say("synthesize", text="hold on")
            await wire.until("audio-chunk")
            await server.__aexit__()
            await wire.until(None)
