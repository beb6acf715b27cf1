"""`/tts/websocket`: many contexts a connection."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket

from gateway.audio import PcmBlock
from gateway.audio.pipe import SILENCE_S
from gateway.protocols.cartesia.fields import (
    Speak,
    error_shape,
    spec_of,
    word_timestamps,
)
from gateway.protocols.framing import Framing
from gateway.protocols.shared.context import caller_of, max_wait_s
from gateway.protocols.shared.sockets import JsonObject, JsonSession, encode
from gateway.protocols.utterance import StreamedText
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError, BadRequest


class CartesiaFraming(Framing):
    """A context's audio and word times, as its first message wants them. `flushes`: so far."""

    silence_s = SILENCE_S

    def __init__(
        self, name: str, tell: Callable[[JsonObject], None], error_id: str, *, timed: bool
    ) -> None:
        self.flushes = 0
        self._name = name
        self._tell = tell
        self._error_id = error_id
        self._timed = timed

    def audio(self, speech: Speech, piece: PcmBlock) -> str:
        about = {"context_id": self._name, "done": False, "status_code": 206}
        if piece.words and self._timed:
            timestamps = {"word_timestamps": word_timestamps(piece.words)}
            self._tell({"type": "timestamps", **about, **timestamps})
        if not piece.data:
            return ""
        data = base64.b64encode(piece.data).decode()
        return encode({"type": "chunk", **about, "data": data, "step_time": 0.0})

    def end(self, speech: Speech) -> str:
        done = {"type": "done", "context_id": self._name, "done": True, "status_code": 200}
        return encode(done)

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        return encode(_error(error, self._name, self._error_id))


class CartesiaSession(JsonSession[CartesiaFraming]):
    """Messages with the same `context_id` are one text."""

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._tenant = ""

    async def open(self) -> None:
        self._tenant = await caller_of(self.context, self.socket)

    async def take(self, message: JsonObject) -> None:
        asked = Speak.parsed(message)
        if not asked.context_id:
            raise BadRequest("'context_id' is required", param="context_id")
        spoken = self.contexts.get(asked.context_id)
        if asked.cancel:
            await self._cancel(spoken)
            return
        if spoken is None or spoken.text.complete:
            spoken = await self._begin(asked)
        self._write(spoken, asked)

    async def _begin(self, asked: Speak) -> StreamedText[CartesiaFraming]:
        self.require_room()
        spec = await spec_of(self.context, self._tenant, asked, max_wait_s(self.socket))
        name, timed = asked.context_id, asked.add_timestamps
        framing = CartesiaFraming(name, self.tell, self.request_id, timed=timed)
        utterance = self.begin(spec, framing, asked.output_format.audio, name)
        self.start(utterance)
        return utterance

    def _write(self, spoken: StreamedText[CartesiaFraming], asked: Speak) -> None:
        text = spoken.text
        if asked.transcript:
            text.add(asked.transcript)
        # Without a delay every message is a sentence of its own.
        if asked.transcript.strip() and (asked.max_buffer_delay_ms == 0 or asked.flush):
            text.boundary()
        if asked.flush:
            spoken.framing.flushes += 1
            flush_id = spoken.framing.flushes
            done = {"flush_done": True, "flush_id": flush_id, "status_code": 206}
            self.tell({"type": "flush_done", "context_id": spoken.name, "done": False, **done})
        if not asked.continue_:
            text.finish()  # its name may be used again at once; its audio goes on

    async def _cancel(self, spoken: StreamedText[CartesiaFraming] | None) -> None:
        if spoken is not None and await self.stop(spoken):
            self.finished(spoken)

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        name = (message or {}).get("context_id", "")
        self.tell(_error(error, name, self.request_id))


def _error(error: AntiphonError, name: Any, request_id: str) -> JsonObject:
    told = error_shape(error, request_id)
    # LiveKit takes an error with `done` for a good end.
    return {"type": "error", "context_id": name, "done": False, **told}
