"""A session's socket: what is read from it, and the outbox that is emptied into it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway.audio import Outbox
from gateway.errors import BinaryMessage, MessageTooBig
from gateway.protocols.native.tuning import SessionTuning
from gateway.protocols.shared.sifter import Json, sifted
from gateway.settings import GatewaySettings
from ttscommon.process.tasks import stop

log_ = structlog.get_logger(__name__)


class Connection:
    """One client's. `send` empties the outbox until `hang_up`."""

    def __init__(self, socket: WebSocket, settings: GatewaySettings, tuning: SessionTuning) -> None:
        self.outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self._socket = socket
        self._max_message_bytes = settings.max_message_bytes
        self._max_recording_bytes = settings.max_recording_bytes
        self._tuning = tuning

    async def accept(self) -> None:
        """Answer the handshake."""
        await self._socket.accept()

    async def receive(self) -> Mapping[str, Any]:
        """The next frame; raises WebSocketDisconnect."""
        frame = await self._socket.receive()
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code", 1005))
        return frame

    async def json_of(self, frame: Mapping[str, Any]) -> Json:
        """A frame's JSON; raises BinaryMessage, MessageTooBig, and what `sifted` raises."""
        text = frame.get("text")
        if text is None:
            raise BinaryMessage("messages are JSON text; binary frames are for audio only")
        data = text.encode()
        limit = self._max_message_bytes
        if len(data) <= limit:
            return await sifted(data)
        if len(data) > self._max_recording_bytes:
            raise MessageTooBig(f"the message is over {self._max_recording_bytes} bytes")
        message = await sifted(data)
        if len(message.data) > limit:
            raise MessageTooBig(f"the message is over {limit} bytes besides its recording")
        return message

    async def send(self) -> None:
        """Send what is in the outbox, until it is finished; raises WebSocketDisconnect."""
        await self.outbox.send_all(self._transmit)

    async def hang_up(self, sender: asyncio.Task[None], code: int) -> None:
        """Send what is still to be said, within a bound, and close. `sender` is running `send`."""
        if self._socket.client_state is not WebSocketState.CONNECTED:
            await self._stop(sender)
            return
        self.outbox.finish()
        if sender.done():
            sender = asyncio.create_task(self.send())
        await asyncio.wait((sender,), timeout=self._tuning.close_s)
        await self._stop(sender)
        if self._socket.application_state is not WebSocketState.CONNECTED:
            return
        try:
            async with asyncio.timeout(self._tuning.close_s):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log_.debug("session.close_unheard")

    async def close_code(self, gone: WebSocketDisconnect, reader: asyncio.Task[None]) -> int:
        """How the client left. A failed sending looks like a loss: the reader knows better."""
        await asyncio.wait((reader,), timeout=self._tuning.close_code_s)
        error = reader.exception() if reader.done() and not reader.cancelled() else None
        return error.code if isinstance(error, WebSocketDisconnect) else gone.code

    async def _transmit(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self._socket.send_text(data)
        else:
            await self._socket.send_bytes(data)

    async def _stop(self, sender: asyncio.Task[None]) -> None:
        await stop(sender, again_s=self._tuning.clean_up_s)
