"""`/tts/websocket`: many contexts a connection."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.websockets import WebSocket

from gateway.audio import Piece
from gateway.errors import TooManyContexts
from gateway.protocols.cartesia.fields import (
    Speak,
    error_shape,
    parse,
    spec_of,
    word_timestamps,
)
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.shapes import ErrorShape
from gateway.protocols.shared.sockets import VendorSession, encode
from gateway.protocols.shared.utterance import Utterance
from gateway.requests import GatewayContext
from ttscommon.wire.errors import AntiphonError, BadRequest


@dataclass
class Voiced:
    """A context: what its first message said holds."""

    name: str
    wish: Speak
    utterance: Utterance
    flushed: int = 0


class Contexts(VendorSession):
    """Messages with the same `context_id` are one text."""

    shape: ClassVar[ErrorShape] = staticmethod(error_shape)

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._contexts: dict[str, Voiced] = {}
        self._of: dict[Utterance, Voiced] = {}
        self._tenant = ""

    async def open(self) -> None:
        self._tenant = tenant_of(self.context, self.socket)

    async def take(self, message: Mapping[str, Any]) -> None:
        wish = parse(message)
        if not wish.context_id:
            raise BadRequest("'context_id' is required", param="context_id")
        voiced = self._contexts.get(wish.context_id)
        if wish.cancel:
            await self._cancel(voiced)
            return
        if voiced is None or voiced.utterance.text.complete:
            voiced = await self._begin(wish)
        self._write(voiced, wish)

    async def _begin(self, wish: Speak) -> Voiced:
        if len(self.utterances) >= self.settings.max_contexts:
            raise TooManyContexts(f"at most {self.settings.max_contexts} contexts may be open")
        spec = await spec_of(self.context, self._tenant, wish)
        audio = wish.output_format.audio
        utterance = Utterance(self.context, spec, audio, self.outbox, self)
        voiced = Voiced(wish.context_id, wish, utterance)
        self._contexts[wish.context_id] = self._of[utterance] = voiced
        self.utterances.add(utterance)
        utterance.start()
        return voiced

    def _write(self, voiced: Voiced, wish: Speak) -> None:
        text = voiced.utterance.text
        if wish.transcript:
            text.add(wish.transcript)
        # Without a delay every message is a sentence of its own.
        if wish.transcript.strip() and (wish.max_buffer_delay_ms == 0 or wish.flush):
            text.boundary()
        if wish.flush:
            voiced.flushed += 1
            done = {"flush_done": True, "flush_id": voiced.flushed, "status_code": 206}
            self.tell({"type": "flush_done", "context_id": voiced.name, "done": False, **done})
        if not wish.continue_:
            text.finish()  # its name may be used again at once; its audio goes on

    async def _cancel(self, voiced: Voiced | None) -> None:
        if voiced is None:
            return
        del self._contexts[voiced.name]
        await voiced.utterance.cancel()
        self._of.pop(voiced.utterance, None)
        self.finished(voiced.utterance)

    def audio(self, utterance: Utterance, piece: Piece) -> str:
        voiced = self._of[utterance]
        about = {"context_id": voiced.name, "done": False, "status_code": 206}
        if piece.words and voiced.wish.add_timestamps:
            timestamps = {"word_timestamps": word_timestamps(piece.words)}
            self.tell({"type": "timestamps", **about, **timestamps})
        if not piece.data:
            return ""
        data = base64.b64encode(piece.data).decode()
        return encode({"type": "chunk", **about, "data": data, "step_time": 0.0})

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        voiced = self._of.pop(utterance)
        if self._contexts.get(voiced.name) is voiced:
            del self._contexts[voiced.name]
        if error is not None:
            self.refused(error, {"context_id": voiced.name})
        else:
            done = {"type": "done", "context_id": voiced.name, "done": True, "status_code": 200}
            self.tell(done)
        self.finished(utterance)

    def refused(self, error: AntiphonError, message: Mapping[str, Any]) -> None:
        told = error_shape(error, self.request_id)
        name = message.get("context_id", "")
        # LiveKit takes an error with `done` for a good end.
        self.tell({"type": "error", "context_id": name, "done": False, **told})
