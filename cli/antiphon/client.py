"""A small client of the gateway: streamed speech over the WebSocket, voices over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

_OPEN_TIMEOUT_S: Final = 10.0
_MAX_FRAME_BYTES: Final = 16 << 20
_BYTES_PER_SAMPLE: Final = 2
_PATIENCE_S: Final = 30.0
_FIRST_BACKOFF_S: Final = 0.05
_LONGEST_BACKOFF_S: Final = 1.0
# Close codes of a gateway that leaves, and errors that pass by themselves while we wait.
_GOING_AWAY: Final = (1001, 1006, 1012)
_LEAVING: Final = ("draining",)
_PASSING: Final = (
    "draining", "bus_unavailable", "store_lost", "store_full", "unavailable", "overloaded",
)  # fmt: skip


class GatewayError(Exception):
    """The gateway refused, failed or is not there; the text is for a person.

    `code` is the gateway's; empty if it did not answer. `retry_after_s`: when it may succeed; None
    if waiting does not help.
    """

    def __init__(self, message: str, code: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


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
        return {"type": "session.config", "model": self.model, "resumable": True, **set_}


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
    A connection that breaks, or a gateway that shuts down, is not the end: the rest comes over
    another connection, from the sample after the last one heard.
    """
    async with _Script(text) as script:
        talk = _Talk(script, options)
        lost_s: float | None = None
        delay_s = _FIRST_BACKOFF_S
        while True:
            heard = talk.heard_bytes
            try:
                async with connect(
                    _socket_url(url), open_timeout=_OPEN_TIMEOUT_S, max_size=_MAX_FRAME_BYTES
                ) as socket:
                    async for event in talk.over(socket):
                        yield event
                    return
            except (_Lost, ConnectionClosed, InvalidHandshake, OSError) as error:
                if not _may_come_back(error, talk):
                    raise _explained(error, url) from error
                if lost_s is None or talk.heard_bytes > heard:
                    lost_s, delay_s = time.monotonic(), _FIRST_BACKOFF_S
                if time.monotonic() - lost_s > _PATIENCE_S:
                    raise _explained(error, url) from error
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            delay_s = min(2 * delay_s, _LONGEST_BACKOFF_S)


@dataclass(frozen=True)
class ServedModel:
    """A model as the gateway lists it."""

    id: str
    family: str
    sample_rate: int
    accepts: tuple[str, ...]


async def voices(url: str) -> list[Voice]:
    """The voices of every live model; raises GatewayError."""
    rows = await _listed(url, "/v1/audio/voices", "voices")
    return [Voice(row["id"], row["name"], row["language"]) for row in rows]


async def models(url: str) -> list[ServedModel]:
    """Every live model; raises GatewayError."""
    rows = await _listed(url, "/v1/models", "data")
    return [
        ServedModel(row["id"], row["family"], row["sample_rate"], tuple(row["accepts"]))
        for row in rows
    ]


async def _listed(url: str, path: str, key: str) -> list[dict[str, Any]]:
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_OPEN_TIMEOUT_S) as client:
            response = await client.get(path)
            response.raise_for_status()
            rows: list[dict[str, Any]] = response.json()[key]
    except httpx.ConnectError as error:
        raise GatewayError(_nobody(url)) from error
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise GatewayError(f"{url} has no list of {path.rpartition('/')[2]}: {error}") from error
    return rows


class _Lost(Exception):
    """The gateway cannot go on with us, and another one may."""


class _Script:
    """The text, read once and remembered, so that another connection can be told it again."""

    def __init__(self, text: AsyncIterable[str]) -> None:
        self.pieces: list[str] = []
        self.complete = False
        self._text = text
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def wait(self, count: int) -> None:
        """Wait until there are more than `count` pieces or no more will come."""
        while len(self.pieces) <= count and not self.complete:
            self._changed.clear()
            await self._changed.wait()

    async def _read(self) -> None:
        try:
            async for piece in self._text:
                self.pieces.append(piece)
                self._changed.set()
        finally:
            self.complete = True
            self._changed.set()


class _Talk:
    """What was said and heard so far, over however many connections."""

    def __init__(self, script: _Script, options: SpeechOptions) -> None:
        self.heard_bytes = 0
        self.met = False
        self._request_bytes = 0
        self._first_piece = 0
        self._script = script
        self._options = options
        self._told = 0
        self._text_done = False
        self._request_id: str | None = None
        self._token = ""
        self._started = False

    async def over(self, socket: ClientConnection) -> AsyncIterator[Event]:
        """Begin, or go on, over a new connection; ends with Finished."""
        if self._request_id is None:
            self._told, self._text_done = self._first_piece, False
        # What was being typed when a connection broke ends there; the rest is a second request.
        second = self._told
        awaited = 1 + (self._request_id is not None and not self._text_done)
        sender = asyncio.create_task(self._send(socket))
        try:
            async for event in self._events(socket):
                if isinstance(event, Finished):
                    awaited -= 1
                    self._request_id = None
                    if awaited and event.outcome == "ok":
                        self._first_piece = second
                        continue
                    yield event
                    return
                yield event
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send(self, socket: ClientConnection) -> None:
        """Say it all. Why a connection closed meanwhile is for the reading side to tell."""
        with contextlib.suppress(ConnectionClosed):
            await _tell(socket, **self._options.config())
            if self._request_id is not None:
                heard = self._request_bytes // _BYTES_PER_SAMPLE
                await _tell(
                    socket,
                    type="session.resume",
                    request_id=self._request_id,
                    token=self._token,
                    from_sample=heard,
                )
            while not self._text_done:
                await self._script.wait(self._told)
                if self._told < len(self._script.pieces):
                    await _tell(socket, type="input.text", text=self._script.pieces[self._told])
                    self._told += 1
                elif self._script.complete:
                    await _tell(socket, type="input.done")
                    self._text_done = True

    async def _events(self, socket: ClientConnection) -> AsyncIterator[Event]:
        async for frame in socket:
            self.met = True
            if isinstance(frame, bytes):
                self.heard_bytes += len(frame)
                self._request_bytes += len(frame)
                yield Audio(frame)
                continue
            message = json.loads(frame)
            match message["type"]:
                case "audio.start":
                    if (started := self._start(message)) is not None:
                        yield started
                case "audio.done":
                    yield Finished(message["outcome"], message)
                case "error":
                    self._refused(message["error"])
                case _:
                    continue
        raise _Lost("the connection ended early")

    def _start(self, message: dict[str, Any]) -> Started | None:
        """Once: neither a resumed request nor the second part of a text is news."""
        if message["request_id"] != self._request_id:
            self._request_id, self._request_bytes = message["request_id"], 0
            self._token = message.get("resume_token", "")
        if self._started:
            return None
        self._started = True
        return Started(
            message["request_id"], message["sample_rate"], message["voice"], message["seed"]
        )

    def _refused(self, error: dict[str, Any]) -> None:
        if error.get("code") in (_PASSING if self._started else _LEAVING):
            raise _Lost(error["message"])
        raise GatewayError(error["message"], error.get("code", ""), error.get("retry_after_s"))


async def _tell(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


def _may_come_back(error: Exception, talk: _Talk) -> bool:
    """Whether another connection has a chance; there must have been a gateway before."""
    if isinstance(error, ConnectionClosed):
        return error.rcvd is None or error.rcvd.code in _GOING_AWAY
    # Somebody took the connection and died, or the proxy before it has nobody to lead to just now.
    cause = error.__cause__ if isinstance(error, InvalidMessage) else error
    return talk.met or isinstance(cause, EOFError | ConnectionResetError)


def _explained(error: Exception, url: str) -> GatewayError:
    if isinstance(error, ConnectionClosed):
        reason = error.rcvd.reason if error.rcvd else ""
        return GatewayError(f"the connection ended early {reason}".rstrip())
    if isinstance(error, InvalidHandshake):
        return GatewayError(f"{url} does not speak the protocol: {error}")
    if isinstance(error, OSError):
        return GatewayError(_nobody(url))
    return GatewayError(str(error))


def _socket_url(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = "wss" if parts.scheme in ("https", "wss") else "ws"
    path = parts.path.rstrip("/") + "/v1/audio/speech/stream"
    return urlunsplit((scheme, parts.netloc, path, "", ""))


def _nobody(url: str) -> str:
    return f"nobody listens at {url}; `antiphon up` starts a stack"
