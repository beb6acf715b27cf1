"""A client of the Realtime socket that keeps every event, and scripts of a stage with words."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from tests.waits import TIMEOUT_S
from ttscommon.wire.messages import AudioChunk, Tensor, WordTime

WORDS = ("One, ", "two ", "three.")
TEXT = "".join(WORDS)


class Client:
    """A socket, and every event that came over it."""

    timeout_s: float = TIMEOUT_S

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def event(self) -> dict[str, Any]:
        async with asyncio.timeout(self.timeout_s):
            frame = await self.socket.recv()
        assert isinstance(frame, str)
        assert len(frame) < 1 << 20
        self.events.append(json.loads(frame))
        assert self.events[-1]["event_id"]
        return self.events[-1]

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Everything up to and with the first event of `kind`."""
        found = [await self.event()]
        while found[-1]["type"] != kind:
            found.append(await self.event())
        return found

    async def last(self, kind: str) -> dict[str, Any]:
        return (await self.until(kind))[-1]

    async def say(self, text: str, **item: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        told = {"type": "message", "role": "user", "content": content, **item}
        await self.send("conversation.item.create", item=told)

    async def ask(self, text: str, **response: Any) -> list[dict[str, Any]]:
        """All events of the answer to a text, up to its end."""
        await self.say(text)
        await self.send("response.create", **({"response": response} if response else {}))
        return await self.until("response.done")

    async def configure(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        updated = await self.last("session.updated")
        found: dict[str, Any] = updated["session"]
        return found


@contextlib.asynccontextmanager
async def opened(
    url: str, query: str = "", model: str = "gpt-realtime", **options: Any
) -> AsyncIterator[Client]:
    address = url.replace("http", "ws") + f"/v1/realtime?model={model}{query}"
    async with connect(address, **options) as socket:
        client = Client(socket)
        assert (await client.event())["type"] == "session.created"
        yield client


def spoken_sound(seconds: float, level: float) -> str:
    """Noise, in base64."""
    noise = np.random.default_rng(3).standard_normal(int(seconds * 24_000)) * level * 32768
    return base64.b64encode(noise.astype("<i2").tobytes()).decode()


async def append(client: Client, *parts: tuple[float, float]) -> None:
    for seconds, level in parts:
        audio = spoken_sound(seconds, level)
        await client.send("input_audio_buffer.append", audio=audio)


def sound(events: list[dict[str, Any]], dtype: str = "<i2") -> Any:
    deltas = [e["delta"] for e in events if e["type"] == "response.output_audio.delta"]
    return np.frombuffer(b"".join(map(base64.b64decode, deltas)), dtype)


def transcript(events: list[dict[str, Any]]) -> str:
    kind = "response.output_audio_transcript.delta"
    return "".join(event["delta"] for event in events if event["type"] == kind)


async def words(performance: Any) -> None:
    """A chunk for each word, with its place in the text."""
    at = 0
    for word in performance.job.request.text.split(" "):
        await say_word(performance, word, at)
        at += len(word) + 1
    await performance.end()


async def say_word(performance: Any, word: str, at: int) -> None:
    rate, start = 16_000, performance.writer.position
    pcm = np.full(rate // 4, 1000 + len(word), np.int16)
    times = start / rate, (start + len(pcm)) / rate
    timed = WordTime(word, *times, word.lower(), at, at + len(word))
    performance.said.append(pcm)
    chunk = AudioChunk(performance.job.request_id, start, rate, Tensor.of(pcm), (timed,))
    await performance.writer.put(chunk)


class Held:
    """Says all words but the last, and that one when it may."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, performance: Any) -> None:
        *most, last = performance.job.request.text.split(" ")
        at = 0
        for word in most:
            await say_word(performance, word, at)
            at += len(word) + 1
        await self.go.wait()
        await say_word(performance, last, at)
        await performance.end()
