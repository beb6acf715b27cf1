"""WebSockets: the handshake, the frames, and messages that are JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway.errors import BinaryMessage, Draining, InvalidJson, MessageTooBig
from gateway.protocols.session import M, Session, SessionPhase
from gateway.protocols.shared.bounded_json import Json, parsed_json
from gateway.protocols.shared.context import subprotocol_of
from gateway.protocols.utterance import F, Gone
from gateway.requests import GatewayContext, new_request_id
from gateway.settings import GatewaySettings

# No closing frame, or an empty one: the connection broke, as far as can be known.
_LOST: Final = (1005, 1006)

JsonObject = Mapping[str, Any]


class WebSocketTransport:
    """Frames of a WebSocket, as ASGI brings them."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def connected(self) -> bool:
        states = (self._socket.client_state, self._socket.application_state)
        return states == (WebSocketState.CONNECTED, WebSocketState.CONNECTED)

    async def receive(self) -> Mapping[str, Any]:
        frame = await self._socket.receive()
        if frame["type"] == "websocket.disconnect":
            raise Gone(lost=frame.get("code", 1005) in _LOST)
        return frame

    async def send(self, data: str | bytes) -> None:
        try:
            if isinstance(data, str):
                await self._socket.send_text(data)
            else:
                await self._socket.send_bytes(data)
        except WebSocketDisconnect as gone:
            raise Gone(lost=gone.code in _LOST) from gone

    async def close(self, code: int) -> None:
        try:
            await self._socket.close(code)
        except (RuntimeError, WebSocketDisconnect) as gone:
            raise Gone from gone


class SocketSession(Session[M, F]):
    """A session that begins with a handshake. `denies`: while this gateway shuts down, handshakes
    are refused too.
    """

    denies: ClassVar[bool] = True

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(WebSocketTransport(socket), context)
        self.socket = socket
        self.request_id = socket.state.request_id = new_request_id()

    async def run(self) -> None:
        """Answer the handshake, and serve the client until either side is done.

        Raises the AntiphonError for which the handshake is to be refused: clients understand a
        status, and no early close.
        """
        if self.denies and self.phase is SessionPhase.DRAINING:
            raise Draining("this gateway is shutting down; connect again")
        await self.open()
        await self.accept()
        await self.serve()

    async def open(self) -> None:
        """Before the handshake is answered; what fails here is an HTTP status."""

    async def accept(self) -> None:
        """Answer the handshake."""
        headers = [(b"x-request-id", self.request_id.encode())]
        await self.socket.accept(subprotocol_of(self.socket), headers=headers)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Queue a control message."""
        self.put(encode(message))


class JsonSession(SocketSession[JsonObject, F]):
    """A session whose messages are JSON objects of any kind; nulls in them mean nothing."""

    async def parse(self, frame: Mapping[str, Any]) -> JsonObject:
        text = frame.get("text") or (frame.get("bytes") or b"").decode("utf-8", "replace")
        if len(text) > self.settings.max_message_bytes:
            raise MessageTooBig(f"the message is over {self.settings.max_message_bytes} bytes")
        return object_of(await parsed_json(text.encode()))


def object_of(given: Json) -> JsonObject:
    """A message without its nulls; raises InvalidJson."""
    try:
        # Strict: half a surrogate pair could not be sent on, nor told back.
        message = msgspec.json.decode(given.data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidJson("a message must be a JSON object") from error
    if not isinstance(message, dict):
        raise InvalidJson("a message must be a JSON object")
    return {name: value for name, value in message.items() if value is not None}


async def json_of(frame: Mapping[str, Any], settings: GatewaySettings, most: int = 0) -> Json:
    """A frame's JSON; raises BinaryMessage, MessageTooBig, and what `parsed_json` raises.

    most: bytes of one with recordings, where a protocol has more than the settings.
    """
    text = frame.get("text")
    if text is None:
        raise BinaryMessage("messages are JSON text; binary frames are for audio only")
    data, limit = text.encode(), settings.max_message_bytes
    if len(data) <= limit:
        return await parsed_json(data)
    if len(data) > (most := max(most, settings.max_recording_bytes)):
        raise MessageTooBig(f"the message is over {most} bytes")
    message = await parsed_json(data)
    if len(message.data) > limit:
        raise MessageTooBig(f"the message is over {limit} bytes besides its recording")
    return message


def encode(message: Mapping[str, Any]) -> str:
    """A message as JSON text."""
    return msgspec.json.encode(message).decode()
