"""A WebSocket in another service's protocol: its life, apart from what its messages mean."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
import structlog
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway import errors
from gateway.audio import Outbox
from gateway.errors import Draining, IdleTimeout, InvalidJson, MessageTooBig, SynthesisFailed
from gateway.protocols.shared.credentials import subprotocol_of
from gateway.protocols.shared.shapes import ErrorShape
from gateway.protocols.shared.sifter import sifted
from gateway.protocols.shared.utterance import Utterance
from gateway.requests import GatewayContext, new_request_id
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError

NORMAL: Final = 1000
GOING_AWAY: Final = 1012
_FAULT: Final = 1011
_CLOSE_S: Final = 1.0
_CLEAN_UP_S: Final = 6.0

log_ = structlog.get_logger(__name__)


class Leave(Exception):
    """The session is over: send what waits, then close with `code`."""

    def __init__(self, code: int = NORMAL) -> None:
        self.code = code


class VendorSession(ABC):
    """One connected client: a reader, a sender, and the utterances a subclass starts.

    Whatever ends the session, its utterances are cancelled and the socket is closed once.
    """

    shape: ClassVar[ErrorShape]

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        settings = context.settings
        self.context = context
        self.settings = settings
        self.socket = socket
        self.request_id = new_request_id()
        self.outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self.utterances: set[Utterance] = set()
        self.idle_s = settings.idle_timeout_s
        self.ended = asyncio.Event()
        self._touched_s = time.monotonic()
        self._leaving: asyncio.Future[int] | None = None
        self._draining = False

    # What a protocol says

    @abstractmethod
    async def open(self) -> None:
        """Before the handshake is answered; what fails here is an HTTP status."""

    @abstractmethod
    async def take(self, message: Mapping[str, Any]) -> None:
        """One message; raises Leave, or an AntiphonError that `refused` tells."""

    @abstractmethod
    def refused(self, error: AntiphonError, message: Mapping[str, Any]) -> None:
        """Tell what is wrong with a message."""

    def opened(self) -> None:  # noqa: B027
        """The handshake was answered."""

    # The life of a session

    async def run(self) -> None:
        """Serve the client until either side is done."""
        try:
            if self._draining:
                raise Draining("this gateway is shutting down; connect again")
            await self.open()
        except AntiphonError as error:
            await self._deny(error)
            return
        await self.socket.accept(
            subprotocol_of(self.socket), headers=[(b"x-request-id", self.request_id.encode())]
        )
        self._leaving = asyncio.get_running_loop().create_future()
        self.opened()
        await self._serve(self._leaving)

    def leave(self, code: int = NORMAL) -> None:
        """Close once everything queued so far has left; safe to call twice."""
        if self._leaving is not None and not self._leaving.done():
            self._leaving.set_result(code)

    def drain(self) -> None:
        """This gateway shuts down: go as soon as nothing is spoken."""
        self._draining = True
        if not self.utterances:
            self.leave(GOING_AWAY)

    def hand_over(self) -> None:
        """This gateway ends now."""
        self.leave(GOING_AWAY)

    def finished(self, utterance: Utterance) -> None:
        """An utterance is over."""
        self.utterances.discard(utterance)
        self._touched_s = time.monotonic()
        if self._draining and not self.utterances:
            self.leave(GOING_AWAY)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Queue a control message."""
        self.outbox.put(encode(message))

    async def _serve(self, leaving: asyncio.Future[int]) -> None:
        sender = asyncio.create_task(self.outbox.send_all(self._transmit))
        parts = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        code = NORMAL
        try:
            ends: set[asyncio.Future[Any]] = {sender, *parts, leaving}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            code = self._verdict([sender, *parts], leaving)
        finally:
            await stop(*parts, again_s=_CLEAN_UP_S)
            await asyncio.gather(*(u.cancel() for u in list(self.utterances)))
            await self._hang_up(sender, code)

    def _verdict(self, tasks: list[asyncio.Task[None]], leaving: asyncio.Future[int]) -> int:
        """The close code for whatever ended the session."""
        for task in tasks:
            error = task.exception() if task.done() else None
            match error:
                case None:
                    continue
                case Leave(code=code):
                    return code
                case WebSocketDisconnect():
                    return NORMAL
                case AntiphonError():
                    self.refused(error, {})
                    return errors.edge(error).close or _FAULT
                case _:
                    log_.error("session.fault", exc_info=error)
                    self.refused(SynthesisFailed("internal error"), {})
                    return _FAULT
        return leaving.result() if leaving.done() else NORMAL

    async def _read(self) -> None:
        while True:
            received = await self.socket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(received.get("code", 1005))
            self._touched_s = time.monotonic()
            message: Mapping[str, Any] = {}
            try:
                message = await self._parse(received)
                await self.take(message)
            except AntiphonError as error:
                if errors.edge(error).close is not None:
                    raise
                self.refused(error, message)

    async def _parse(self, received: Mapping[str, Any]) -> Mapping[str, Any]:
        text = received.get("text") or (received.get("bytes") or b"").decode("utf-8", "replace")
        if len(text) > self.settings.max_message_bytes:
            raise MessageTooBig(f"the message is over {self.settings.max_message_bytes} bytes")
        try:
            # Strict: half a surrogate pair could not be sent on, nor told back.
            message = msgspec.json.decode((await sifted(text.encode())).data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidJson("a message must be a JSON object") from error
        if not isinstance(message, dict):
            raise InvalidJson("a message must be a JSON object")
        return {name: value for name, value in message.items() if value is not None}

    async def _watch(self) -> None:
        """Ends a session in which nothing happens."""
        while True:
            idle_s = time.monotonic() - self._touched_s
            busy = any(utterance.begun for utterance in self.utterances)
            if not busy and idle_s >= self.idle_s:
                raise IdleTimeout(f"nothing was said for {self.idle_s:g} s")
            await asyncio.sleep(self.idle_s if busy else self.idle_s - idle_s)

    async def _transmit(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self.socket.send_text(data)
        else:
            await self.socket.send_bytes(data)

    async def _deny(self, error: AntiphonError) -> None:
        """Answer the handshake with a status: clients understand that, and no early close."""
        body = dict(type(self).shape(error, self.request_id))
        headers = {**errors.headers(error), "x-request-id": self.request_id}
        response = JSONResponse(body, errors.edge(error).status, headers)
        await self.socket.send_denial_response(response)

    async def _hang_up(self, sender: asyncio.Task[None], code: int) -> None:
        if self.socket.client_state is not WebSocketState.CONNECTED:
            await stop(sender, again_s=_CLEAN_UP_S)
            return
        self.outbox.finish()
        await asyncio.wait((sender,), timeout=_CLOSE_S)
        await stop(sender, again_s=_CLEAN_UP_S)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log_.debug("session.close_unheard")


def encode(message: Mapping[str, Any]) -> str:
    """A message as JSON text."""
    return msgspec.json.encode(message).decode()
