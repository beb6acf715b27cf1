"""Speech over the native WebSocket, which survives the connection that it came over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any, Final, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from antiphon.client.gateway import (
    Address,
    Audio,
    Event,
    Finished,
    GatewayError,
    SpeechOptions,
    Started,
    Word,
    Words,
)

_OPEN_TIMEOUT_S: Final = 10.0
_MAX_FRAME_BYTES: Final = 16 << 20
_BYTES_PER_SAMPLE: Final = 2
_TIMEOUT_S: Final = 30.0
_FIRST_BACKOFF_S: Final = 0.05
_LONGEST_BACKOFF_S: Final = 1.0
# Close codes of a gateway that leaves, and errors that pass by themselves while we wait.
_GOING_AWAY: Final = (1001, 1006, 1012)
_LEAVING: Final = ("draining",)
_PASSING: Final = (
    "draining", "bus_unavailable", "store_lost", "store_full", "unavailable", "overloaded",
)  # fmt: skip


async def speak(
    url: str, text: AsyncIterable[str], options: SpeechOptions, key: str | None = None
) -> AsyncGenerator[Event, None]:
    """Send `text` as it comes and yield the answer as it comes; raises GatewayError.

    The stream is Started, any number of Audio and Words, Finished; without Started if nothing was
    said. `key`: the API key, where the gateway asks for one.
    A connection that breaks, or a gateway that shuts down, is not the end: the rest comes over
    another connection, from the sample after the last one heard.
    """
    address = Address.parse(url, key)
    async with _Script(text) as script:
        talk = _Talk(script, options)
        lost_s: float | None = None
        delay_s = _FIRST_BACKOFF_S
        while True:
            heard = talk.heard_bytes
            try:
                async with _connection(address) as socket:
                    async for event in talk.over(socket):
                        yield event
                    return
            except (_Lost, ConnectionClosed, InvalidHandshake, OSError) as error:
                if not _may_come_back(error, talk):
                    raise _explained(error, address) from error
                if lost_s is None or talk.heard_bytes > heard:
                    lost_s, delay_s = time.monotonic(), _FIRST_BACKOFF_S
                if time.monotonic() - lost_s > _TIMEOUT_S:
                    raise _explained(error, address) from error
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            delay_s = min(2 * delay_s, _LONGEST_BACKOFF_S)


def _connection(address: Address) -> connect:
    return connect(
        address.socket,
        additional_headers=address.headers,
        open_timeout=_OPEN_TIMEOUT_S,
        max_size=_MAX_FRAME_BYTES,
    )


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

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def wait(self, count: int) -> None:
        """Wait until there are more than `count` pieces or no more will come."""
        while len(self.pieces) <= count and not self.complete:
            self._changed.clear()
            await self._changed.wait()

    async def more(self, count: int) -> bool:
        """Whether anything to speak follows `count` pieces; waits until that is known."""
        while True:
            if any(piece.strip() for piece in self.pieces[count:]):
                return True
            if self.complete:
                return False
            await self.wait(len(self.pieces))

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
        self._sent = 0
        self._text_done = False
        self._request_id: str | None = None
        self._token = ""
        self._started: Started | None = None
        self._before_bytes = 0
        self._last_word_s = -1.0

    async def over(self, socket: ClientConnection) -> AsyncIterator[Event]:
        """Begin, or go on, over a new connection; ends with Finished."""
        if self._request_id is None:
            self._sent, self._text_done = self._first_piece, False
        # What was being typed when a connection broke ends there; the rest is a second request,
        # if there is any.
        second = self._sent
        awaited = 1 + (self._request_id is not None and not self._text_done)
        sender = asyncio.create_task(self._send(socket))
        try:
            async for event in self._events(socket):
                if isinstance(event, Finished):
                    awaited -= 1
                    self._request_id = None
                    goes_on = awaited and event.outcome != "cancelled"
                    if goes_on and await self._script.more(second):
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
            if self._sent and not self._text_done:
                self._text_done = not await self._script.more(self._sent)
            while not self._text_done:
                await self._script.wait(self._sent)
                if self._sent < len(self._script.pieces):
                    await _tell(socket, type="input.text", text=self._script.pieces[self._sent])
                    self._sent += 1
                elif self._script.complete:
                    if not self._sent:  # so that the gateway says that there is nothing to say
                        await _tell(socket, type="input.text", text="")
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
                case "audio.words":
                    if words := self._fresh(message["words"]):
                        yield Words(words)
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
            self._before_bytes = self.heard_bytes
            self._token = message.get("resume_token", "")
        if self._started:
            return None
        self._started = Started(
            message["request_id"],
            message["sample_rate"],
            message["voice"],
            message["seed"],
            message["model"],
            "digital_source_type" in message,
            message.get("generated_by", ""),
        )
        return self._started

    def _fresh(self, words: list[dict[str, Any]]) -> tuple[Word, ...]:
        """Those that were not told before the connection broke, timed from the first sample."""
        assert self._started is not None
        before_s = self._before_bytes / _BYTES_PER_SAMPLE / self._started.sample_rate
        timed = [Word(w["word"], w["start_s"], w["end_s"]).later(before_s) for w in words]
        fresh = tuple(word for word in timed if word.start_s > self._last_word_s)
        if fresh:
            self._last_word_s = fresh[-1].start_s
        return fresh

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
    # A gateway took the connection and died, or the proxy has no gateway to lead to just now.
    cause = error.__cause__ if isinstance(error, InvalidMessage) else error
    return talk.met or isinstance(cause, EOFError | ConnectionResetError)


def _explained(error: Exception, address: Address) -> GatewayError:
    if isinstance(error, ConnectionClosed):
        reason = error.rcvd.reason if error.rcvd else ""
        return GatewayError(f"the connection ended early {reason}".rstrip())
    if isinstance(error, InvalidStatus):
        return _refusal(error, address)
    if isinstance(error, InvalidHandshake):
        return GatewayError(f"{address.url} does not speak the protocol: {error}")
    if isinstance(error, OSError):
        return GatewayError(address.silent)
    return GatewayError(str(error))


def _refusal(error: InvalidStatus, address: Address) -> GatewayError:
    """In the gateway's own words, where it has some."""
    try:
        told = json.loads(error.response.body or b"")["error"]
        message, code = str(told["message"]), str(told.get("code", ""))
    except (ValueError, KeyError, TypeError):
        return GatewayError(f"{address.url} does not speak the protocol: {error}")
    return GatewayError(message, code)
