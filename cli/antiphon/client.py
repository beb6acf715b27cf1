"""A small client of the gateway: streamed speech over the WebSocket, voices over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

_OPEN_TIMEOUT_S: Final = 10.0
_MAX_FRAME_BYTES: Final = 16 << 20


class GatewayError(Exception):
    """The gateway refused, failed or is not there; the text is for a person."""


@dataclass(frozen=True)
class Voice:
    """A voice that can be spoken with now."""

    id: str
    name: str
    language: str


@dataclass(frozen=True)
class SpeechOptions:
    """What may be chosen; None leaves it to the server."""

    model: str = "default"
    voice: str | None = None
    seed: int | None = None
    sample_rate: int | None = None

    def config(self) -> dict[str, Any]:
        """The `session.config` message."""
        chosen = {"voice": self.voice, "seed": self.seed, "sample_rate": self.sample_rate}
        set_ = {name: value for name, value in chosen.items() if value is not None}
        return {"type": "session.config", "model": self.model, **set_}


@dataclass(frozen=True)
class Started:
    """Audio follows: mono s16le at `sample_rate`."""

    request_id: str
    sample_rate: int
    voice: str
    seed: int


@dataclass(frozen=True)
class Audio:
    """Some samples, s16le."""

    pcm: bytes


@dataclass(frozen=True)
class Finished:
    """The end of the request, with the server's account of it."""

    outcome: str
    totals: dict[str, Any]


Event: TypeAlias = Started | Audio | Finished


async def speak(url: str, text: AsyncIterable[str], options: SpeechOptions) -> AsyncIterator[Event]:
    """Send `text` as it comes and yield the answer as it comes; raises GatewayError.

    The stream is Started, any number of Audio, Finished; without Started if nothing was said.
    """
    try:
        async with connect(
            _socket_url(url), open_timeout=_OPEN_TIMEOUT_S, max_size=_MAX_FRAME_BYTES
        ) as socket:
            sender = asyncio.create_task(_send(socket, options, text))
            try:
                async for event in _events(socket):
                    yield event
            finally:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
    except ConnectionClosed as error:
        reason = error.rcvd.reason if error.rcvd else ""
        raise GatewayError(f"the connection ended early {reason}".rstrip()) from error
    except InvalidHandshake as error:
        raise GatewayError(f"{url} does not speak the protocol: {error}") from error
    except OSError as error:
        raise GatewayError(_nobody(url)) from error


async def voices(url: str) -> list[Voice]:
    """The voices of every live model; raises GatewayError."""
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_OPEN_TIMEOUT_S) as client:
            response = await client.get("/v1/audio/voices")
            response.raise_for_status()
            rows = response.json()["voices"]
    except httpx.ConnectError as error:
        raise GatewayError(_nobody(url)) from error
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise GatewayError(f"{url} has no list of voices: {error}") from error
    return [Voice(row["id"], row["name"], row["language"]) for row in rows]


async def _events(socket: ClientConnection) -> AsyncIterator[Event]:
    async for frame in socket:
        if isinstance(frame, bytes):
            yield Audio(frame)
            continue
        message = json.loads(frame)
        match message["type"]:
            case "audio.start":
                yield Started(
                    message["request_id"],
                    message["sample_rate"],
                    message["voice"],
                    message["seed"],
                )
            case "audio.done":
                yield Finished(message["outcome"], message)
                return
            case "error":
                raise GatewayError(message["error"]["message"])
            case _:
                continue
    raise GatewayError("the connection ended early")


async def _send(socket: ClientConnection, options: SpeechOptions, text: AsyncIterable[str]) -> None:
    """Say it all. Why a connection closed meanwhile is for the reading side to tell."""
    with contextlib.suppress(ConnectionClosed):
        await socket.send(json.dumps(options.config()))
        async for piece in text:
            await socket.send(json.dumps({"type": "input.text", "text": piece}))
        await socket.send(json.dumps({"type": "input.done"}))


def _socket_url(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = "wss" if parts.scheme in ("https", "wss") else "ws"
    path = parts.path.rstrip("/") + "/v1/audio/speech/stream"
    return urlunsplit((scheme, parts.netloc, path, "", ""))


def _nobody(url: str) -> str:
    return f"nobody listens at {url}; `antiphon up` starts a stack"
