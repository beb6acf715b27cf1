"""Test clients of every kind: some listen to the end, some leave in the middle."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import httpx
from websockets.asyncio.client import ClientConnection, connect

TIMEOUT_S: Final = 60.0
SHORT_TEXT: Final = "The lamps are lit along the wall, and somebody begins to sing."
LONG_TEXT: Final = "And then the story went on for a while, as stories do. " * 20
LONGEST_VISIT_S: Final = 1.0

TestClient = Callable[[str, random.Random], Awaitable[None]]


class Unexpected(Exception):
    """The server did something else than it should have; `code`: of an error that it told."""

    def __init__(self, said: str, code: str = "") -> None:
        super().__init__(said)
        self.code = code


async def listens(url: str, dice: random.Random) -> None:
    """Hears a request over the socket to its end."""
    async with open_socket(url) as socket:
        await ask(socket, SHORT_TEXT)
        await until_done(socket, "ok")


async def posts(url: str, dice: random.Random) -> None:
    """Fetches a WAV."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        response = await client.post("/v1/audio/speech", json={"input": SHORT_TEXT})
    if response.status_code != 200 or len(response.content) < 1000:
        raise Unexpected(f"HTTP {response.status_code}: {response.text[:200]}")


async def cancels(url: str, dice: random.Random) -> None:
    """Barges in after the first sound, long before the end even on a busy machine."""
    async with open_socket(url) as socket:
        await ask(socket, LONG_TEXT * 3)
        await first_sound(socket)
        await send(socket, type="cancel")
        await until_done(socket, "cancelled")


async def vanishes(url: str, dice: random.Random) -> None:
    """Is gone at some moment: before the first sound, in mid-speech."""
    async with open_socket(url) as socket:
        await ask(socket, LONG_TEXT)
        await _listen_for(socket, dice.uniform(0.0, LONGEST_VISIT_S))
        socket.transport.abort()


async def vanishes_typing(url: str, dice: random.Random) -> None:
    """Is gone while its text is not complete."""
    async with open_socket(url) as socket:
        await send(socket, type="session.config", voice="default")
        for word in LONG_TEXT.split()[: dice.randint(1, 40)]:
            await send(socket, type="input.text", text=f"{word} ")
        await _listen_for(socket, dice.uniform(0.0, LONGEST_VISIT_S))
        socket.transport.abort()


async def vanishes_from_http(url: str, dice: random.Random) -> None:
    """Closes the connection of a streamed response."""
    body = {"input": LONG_TEXT, "response_format": "pcm"}
    try:
        async with asyncio.timeout(dice.uniform(0.02, LONGEST_VISIT_S)):
            async with (
                httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client,
                client.stream("POST", "/v1/audio/speech", json=body) as response,
            ):
                async for _ in response.aiter_raw():
                    pass
    except TimeoutError:
        return


async def resumes(url: str, dice: random.Random) -> None:
    """Loses its connection and hears the rest over another one."""
    async with open_socket(url) as socket:
        await ask(socket, SHORT_TEXT, resumable=True)
        ticket, samples = await first_sound(socket)
        socket.transport.abort()
    async with open_socket(url) as socket:
        await resume(socket, ticket, samples, resumable=True)
        await until_done(socket, "ok")


async def vanishes_resuming(url: str, dice: random.Random) -> None:
    """Resumes, and is gone for good.

    Gone before it has resumed, it might come back, and would be waited for.
    """
    async with open_socket(url) as socket:
        await ask(socket, LONG_TEXT, resumable=True)
        ticket, samples = await first_sound(socket)
        socket.transport.abort()
    async with open_socket(url) as socket:
        await resume(socket, ticket, samples)
        await first_sound(socket)
        await _listen_for(socket, dice.uniform(0.0, LONGEST_VISIT_S))
        socket.transport.abort()


async def errs(url: str, dice: random.Random) -> None:
    """Asks for what there is not."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        response = await client.post("/v1/audio/speech", json={"input": "Hm.", "voice": "hal"})
    if response.status_code != 400 or response.json()["error"]["code"] != "unknown_voice":
        raise Unexpected(f"HTTP {response.status_code}: {response.text[:200]}")


LEAVING: Final[tuple[TestClient, ...]] = (
    vanishes,
    vanishes_typing,
    vanishes_from_http,
    vanishes_resuming,
)
MIXED: Final[Mapping[TestClient, int]] = {
    listens: 40,
    posts: 20,
    cancels: 10,
    vanishes: 8,
    vanishes_typing: 4,
    vanishes_from_http: 6,
    resumes: 6,
    errs: 6,
}


def open_socket(url: str) -> connect:
    address = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
    return connect(address, open_timeout=TIMEOUT_S, close_timeout=5.0)


async def send(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def ask(socket: ClientConnection, text: str, **config: Any) -> None:
    await send(socket, type="session.config", voice="default", **config)
    await send(socket, type="input.text", text=text)
    await send(socket, type="input.done")


async def resume(
    socket: ClientConnection, ticket: Mapping[str, str], samples: int, **config: Any
) -> None:
    await send(socket, type="session.config", voice="default", **config)
    await send(socket, type="session.resume", **ticket, from_sample=samples)


async def first_sound(socket: ClientConnection) -> tuple[dict[str, str], int]:
    """What it takes to resume the request, and the samples of the first piece."""
    ticket: dict[str, str] = {}
    async with asyncio.timeout(TIMEOUT_S):
        async for frame in socket:
            if isinstance(frame, bytes):
                return ticket, len(frame) // 2
            if (message := _told(frame))["type"] == "audio.start":
                token = message.get("resume_token", "")
                ticket = {"request_id": message["request_id"], "token": token}
    raise Unexpected("the connection ended before the first sound")


async def until_done(socket: ClientConnection, outcome: str, timeout_s: float = TIMEOUT_S) -> None:
    async with asyncio.timeout(timeout_s):
        async for frame in socket:
            if isinstance(frame, str) and (message := _told(frame))["type"] == "audio.done":
                if message["outcome"] != outcome:
                    raise Unexpected(f"{message['outcome']} instead of {outcome}")
                return
    raise Unexpected("the connection ended before the request")


async def _listen_for(socket: ClientConnection, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            async for frame in socket:
                if isinstance(frame, str):
                    _told(frame)
    except TimeoutError:
        return


def _told(frame: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(frame)
    if message["type"] == "error":
        raise Unexpected(message["error"]["message"], message["error"]["code"])
    return message
