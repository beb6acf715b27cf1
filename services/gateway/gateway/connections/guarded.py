"""uvicorn's connections with deadlines and limits: a client that sends slowly, or only opens
connections, takes nothing from others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

# The costliest bytes are empty frames and pipelined requests: some 5 us a byte.
SLICE_BYTES: Final = 1024
# Between two looks at the clock and the other clients.
BUDGET_S: Final = 0.002


class Feed:
    """`parse` gets what `put` got, while `paused` says no and the transport is open.

    What is not parsed yet is bounded: the transport reads no more until all of it is.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        parse: Callable[[bytes], None],
        paused: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._parse = parse
        self._paused = paused
        self._held = b""
        self._at = 0
        self._waking: asyncio.Handle | None = None

    @property
    def holds(self) -> bool:
        """Whether there is anything left to parse."""
        return self._at < len(self._held)

    def put(self, data: bytes) -> None:
        """Parse `data` now if it is short, else its beginning now and the rest by and by."""
        if not self.holds and len(data) <= SLICE_BYTES:
            self._parse(data)
            return
        self._held = self._held[self._at :] + data
        self._at = 0
        self._transport.pause_reading()
        if self._waking is None:
            self._go_on()

    def wake(self) -> None:
        """The parser takes more now: what is held goes first, then the transport reads on."""
        if not self.holds:
            return
        self._transport.pause_reading()
        if self._waking is None:
            self._waking = self._loop.call_soon(self._go_on)

    def take_rest(self) -> bytes:
        """What was not parsed, for another parser; this one gets no more."""
        rest, self._held, self._at = self._held[self._at :], b"", 0
        self.close()
        return rest

    def close(self) -> None:
        """Drop what is left: the connection is gone."""
        self._held, self._at = b"", 0
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _go_on(self) -> None:
        self._waking = None
        until_s = time.perf_counter() + BUDGET_S
        while self.holds and not self._paused() and not self._transport.is_closing():
            start, self._at = self._at, self._at + SLICE_BYTES
            self._parse(self._held[start : self._at])
            if time.perf_counter() > until_s:
                break
        self._arrange()

    def _arrange(self) -> None:
        if self._transport.is_closing():
            self.close()
        elif not self.holds:
            self._held, self._at = b"", 0
            if not self._paused():
                self._transport.resume_reading()
        elif not self._paused():
            self.wake()


_MOST_HEAD_BYTES: Final = 64 << 10
_MOST_HEADERS: Final = 100
_OPENAI_TYPES: Final = {HTTPStatus.SERVICE_UNAVAILABLE: "server_error"}


@dataclass(frozen=True)
class ConnectionLimits:
    """Seconds, bytes a second, and connections of this gateway at once."""

    head_s: float = 10.0
    body_s: float = 30.0
    least_rate: int = 16 << 10
    connections: int = 4096


class _Flow(FlowControl):
    """Tells when reading goes on."""

    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        if self.read_paused:
            super().resume_reading()
            self._resumed()


class GuardedHttp(HttpToolsProtocol):
    """An HTTP connection. `due_s` is when it is overdue, by the monotonic clock."""

    def __init__(self, limits: ConnectionLimits, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limits = limits
        self._feed: Feed | None = None
        self._in_head, self._head_bytes = True, 0
        self._refused = False
        self.due_s: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self._wake)
        self._feed = Feed(transport, self._parse, lambda: self.flow.read_paused)
        self.due_s = time.monotonic() + self._limits.head_s
        if len(self.connections) > self._limits.connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open")

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        assert self._feed is not None
        if self._refused:
            return
        if self.due_s is None and self._idle():
            self.due_s = time.monotonic() + self._limits.head_s
        self._feed.put(data)

    def on_headers_complete(self) -> None:
        if len(self.headers) > _MOST_HEADERS:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many headers")
        self._in_head, self._head_bytes = False, 0
        if not self._refused:
            self.due_s = time.monotonic() + self._limits.body_s
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        if self.due_s is not None:
            self.due_s += len(body) / self._limits.least_rate
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        if not self._refused:
            self.due_s = None
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """The socket gets what came behind the handshake too."""
        assert self._feed is not None
        self.due_s = None
        rest = self._feed.take_rest()
        super().handle_websocket_upgrade()
        if rest and not self.transport.is_closing():
            protocol = self.transport.get_protocol()
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(rest)

    def late(self, now_s: float) -> bool:
        """Whether the client was too slow, and not the application."""
        return self.due_s is not None and self.due_s < now_s and not self.flow.read_paused

    def give_up(self) -> None:
        """End the connection of a client that was too slow."""
        if self._in_head and not self._head_bytes:
            self.transport.close()  # it never asked for anything
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")

    def _parse(self, data: bytes) -> None:
        if self._in_head:
            # A header that never ends reaches no callback.
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too big")
        if not self._refused:
            super().data_received(data)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Close; say why, where the client waits for a response that has not begun."""
        self._refused, self.due_s = True, None
        if not self.transport.is_closing():
            if self._awaited():
                self.transport.write(_refusal(status, why))
            self.transport.close()
        self._drop()

    def _idle(self) -> bool:
        """Whether no request is being answered."""
        cycle = cast(RequestResponseCycle | None, self.cycle)
        return cycle is None or cycle.response_complete

    def _awaited(self) -> bool:
        """Whether there is a request, and no response to it. An idle connection just ends."""
        if self._idle():
            return self._in_head
        begun, self.cycle.response_started = self.cycle.response_started, True
        return not begun

    def _wake(self) -> None:
        """The application takes more; while it did not, the client could not send."""
        if self.due_s is not None:
            self.due_s = max(self.due_s, time.monotonic() + self._limits.body_s)
        if self._feed is not None:
            self._feed.wake()

    def _drop(self) -> None:
        if self._feed is not None:
            self._feed.close()


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose frames are parsed no faster than the application takes the messages.

    large: bytes of a message at paths where more are taken than elsewhere.
    """

    _feed: Feed | None = None

    def __init__(self, large: Mapping[str, int], **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._large = large

    def handle_connect(self, event: Request) -> None:
        if (most := self._large.get(event.path.partition("?")[0])) is not None:
            self.conn.max_message_size = max(most, self.conn.max_message_size or most)
        super().handle_connect(event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._feed = Feed(self.transport, super().data_received, lambda: self.read_paused)

    def data_received(self, data: bytes) -> None:
        assert self._feed is not None
        self._feed.put(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._feed is not None:
            self._feed.close()
        super().connection_lost(exc)

    async def receive(self) -> ASGIReceiveEvent:
        event = await super().receive()
        if self._feed is not None and not self.read_paused:
            self._feed.wake()
        return event


def _refusal(status: HTTPStatus, why: str) -> bytes:
    kind = _OPENAI_TYPES.get(status, "invalid_request_error")
    code = status.phrase.lower().replace(" ", "_")
    told = {"message": why, "type": kind, "param": None, "code": code}
    body = msgspec.json.encode({"error": told})
    retry = "retry-after: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
    )
    return head.encode() + body
