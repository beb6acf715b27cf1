"""A speech server that only keeps time: both protocols, a tone, known delays, no engine.

It gives the tests of the generator a known truth.
"""

import asyncio
import json
import multiprocessing
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import numpy as np
import uvloop
from aiohttp import WSMsgType, web

_START_S = 60.0


@dataclass(frozen=True)
class Step:
    """A chunk of `samples` that leaves `at_s` after the text is complete."""

    at_s: float
    samples: int


@dataclass(frozen=True)
class Refusal:
    """An answer other than speech; on the socket it is an error frame, then a close."""

    status: int
    code: str
    close: int | None = None
    retry_after_s: int | None = None

    @property
    def error(self) -> dict[str, object]:
        told = {"message": "no", "type": "server_error", "param": None, "code": self.code}
        return told | ({} if self.retry_after_s is None else {"retry_after_s": self.retry_after_s})


@dataclass(frozen=True)
class Pace:
    """The default plan: first chunk after `first_s`, then `speed` times faster than playback."""

    first_s: float = 0.05
    chunk_s: float = 0.32
    speed: float = 1.5
    word_s: float = 0.35
    sample_rate: int = 16_000

    def steps(self, text: str) -> list[Step]:
        """When the chunks of `text` leave."""
        left = max(1, len(text.split())) * self.word_s
        steps, at_s = [], self.first_s
        while left > 1e-9:
            audio_s = min(self.chunk_s, left)
            steps.append(Step(at_s, round(audio_s * self.sample_rate)))
            at_s += audio_s / self.speed
            left -= audio_s
        return steps


@dataclass
class Loopback:
    """The server."""

    plan: Callable[[str], list[Step]] = field(default_factory=lambda: Pace().steps)
    refuse: Callable[[str], Refusal | None] = lambda _text: None
    sample_rate: int = 16_000
    silence_s: float = 0.0
    cut: bool = False

    def __post_init__(self) -> None:
        self.texts: list[str] = []
        self.sockets = 0
        # A cosine: loud from its first sample on. 440 Hz fits any second exactly.
        phase = 2.0 * np.pi * 440.0 * np.arange(self.sample_rate) / self.sample_rate
        self._second = (8000.0 * np.cos(phase)).astype("<i2")

    def app(self) -> web.Application:
        """The application with both routes."""
        app = web.Application()
        app.router.add_post("/v1/audio/speech", self._post)
        app.router.add_get("/v1/audio/speech/stream", self._socket)
        return app

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serves on a loopback port while the context lasts; gives the base address."""
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _chunks(self, text: str) -> AsyncIterator[bytes]:
        self.texts.append(text)
        loop = asyncio.get_running_loop()
        start, position = loop.time(), 0
        for step in self.plan(text):
            await asyncio.sleep(start + step.at_s - loop.time())
            yield self._tone(position, step.samples)
            position += step.samples

    def _tone(self, position: int, samples: int) -> bytes:
        rate, start = self.sample_rate, position % self.sample_rate
        turns = -(-(start + samples) // rate)
        pcm = np.tile(self._second, turns)[start : start + samples].copy()
        pcm[: max(0, round(self.silence_s * rate) - position)] = 0
        return pcm.tobytes()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if (refusal := self.refuse(body["input"])) is not None:
            wait_s = refusal.retry_after_s
            headers = {} if wait_s is None else {"retry-after": str(wait_s)}
            return web.json_response(
                {"error": refusal.error}, status=refusal.status, headers=headers
            )
        response = web.StreamResponse(
            headers={
                "x-request-id": "loopback",
                "x-sample-rate": str(self.sample_rate),
                "server-timing": "queue;dur=1.5, talker;dur=20",
            }
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        if body["response_format"] == "wav":
            await response.write(stream_header(self.sample_rate))
        async for chunk in self._chunks(body["input"]):
            await response.write(chunk)
            if self.cut and request.transport is not None:
                request.transport.abort()
                return response
        await response.write_eof()
        return response

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        self.sockets += 1
        await socket.prepare(request)
        text = ""
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            event = json.loads(message.data)
            if event["type"] == "session.config":
                await socket.send_json({"type": "session.created", "protocol": 1})
            elif event["type"] == "input.text":
                text += event["text"]
            elif event["type"] == "input.done":
                await self._speak(socket, text)
                text = ""
        return socket

    async def _speak(self, socket: web.WebSocketResponse, text: str) -> None:
        if (refusal := self.refuse(text)) is not None:
            await socket.send_json({"type": "error", "error": refusal.error})
            if refusal.close is not None:
                await socket.close(code=refusal.close)
            return
        samples = 0
        async for chunk in self._chunks(text):
            if not samples:
                await socket.send_json(
                    {
                        "type": "audio.start",
                        "request_id": "loopback",
                        "sample_rate": self.sample_rate,
                    }
                )
            await socket.send_bytes(chunk)
            samples += len(chunk) // 2
            if self.cut:
                await socket.close(code=1011)
                return
        await socket.send_json(
            {
                "type": "audio.done",
                "outcome": "ok",
                "samples": samples,
                "ttfp_s": 0.05,
                "stages": {"queue_s": 0.0015, "talker_s": 0.02},
            }
        )


def serve_forever(told: Connection, pace: Pace) -> None:
    """Serves until killed; the entry point of the child process. told: its address."""

    async def main() -> None:
        server = Loopback(plan=pace.steps, sample_rate=pace.sample_rate)
        async with server.serve() as url:
            told.send(url)
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@contextmanager
def loopback_process(pace: Pace) -> Iterator[str]:
    """A loopback server in a process of its own while the context lasts; its address."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve_forever, args=(theirs, pace), daemon=True)
    process.start()
    try:
        if not ours.poll(_START_S):
            raise TimeoutError("the loopback server does not start")
        yield str(ours.recv())
    finally:
        process.terminate()
        process.join()


def stream_header(sample_rate: int) -> bytes:
    """Header (44 bytes) of a mono 16-bit stream whose length is not known yet."""
    unknown = 0xFFFFFFFF
    riff = struct.pack("<4sI4s", b"RIFF", unknown, b"WAVE")
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return riff + layout + struct.pack("<4sI", b"data", unknown)
