"""`WS /v1/speak`: turns that a flush ends, spoken one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from starlette.websockets import WebSocket

from gateway import errors
from gateway.audio import AudioFormat
from gateway.audio.silence import SILENCE_S
from gateway.errors import TooManyContexts, Unsupported
from gateway.protocols.deepgram.fields import Query, error_shape, parse_query, spec_of
from gateway.protocols.fields import text_of
from gateway.protocols.framing import Plain
from gateway.protocols.session import Leave
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.shapes import ErrorShape
from gateway.protocols.shared.sockets import JsonObject, JsonSession
from gateway.protocols.utterance import Playlist, StreamedText
from gateway.requests import GatewayContext, SpeechSpec
from ttscommon.wire.errors import AntiphonError, BadRequest

_ENCODING: Final = "linear16"
# Clients keep a socket for an hour, and there is no message that keeps one alive.
_POOLED_S: Final = 3600.0


class DeepgramSession(JsonSession[Plain]):
    """Binary frames are audio. `Flushed` follows the last audio of everything before its flush."""

    shape: ClassVar[ErrorShape] = staticmethod(error_shape)
    greeting: ClassVar[str] = "Metadata"
    uuids: ClassVar[Mapping[str, Any]] = {"model_uuid": ""}
    _spec: SpeechSpec

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._query = Query()
        self._audio = AudioFormat()
        # Turns that are spoken or wait; the text of the last one may still be coming in.
        self._turns: Playlist[Plain] = Playlist()
        self._typed: StreamedText[Plain] | None = None
        self._sequence = 0
        self.idle_s = max(self.idle_s, _POOLED_S)

    async def open(self) -> None:
        tenant = tenant_of(self.context, self.socket)
        self._query = parse_query(self.socket)
        self._audio = self._query.audio(_ENCODING, "none")
        if not self._audio.raw:
            raise Unsupported("encoding must be linear16, mulaw or alaw here", param="encoding")
        rate = self._query.rate_hz(_ENCODING) if self._query.sample_rate else 24_000
        self._spec = await spec_of(self.context, tenant, self._query, rate)

    async def accept(self) -> None:
        await super().accept()
        about = {"request_id": self.request_id, "model_name": self._query.model}
        self.tell({"type": self.greeting, **about, "model_version": "1", **self.uuids})

    async def take(self, message: JsonObject) -> None:
        match message.get("type"):
            case "Speak":
                self._write(text_of(message))
            case "Flush":
                self._flush()
            case "Clear":
                await self._clear()
            case "Close":
                raise Leave
            case other:
                raise BadRequest(f"unknown message type '{other}'", param="type")

    def _write(self, text: str) -> None:
        self._turn().text.add(text)

    def _flush(self) -> None:
        """End the turn; one without text is spoken too, as nothing."""
        turn = self._turn()
        turn.text.finish()
        self._typed = None

    def _turn(self) -> StreamedText[Plain]:
        """The turn whose text is coming in."""
        if self._typed is None:
            if len(self._turns) >= self.settings.max_queued_requests:
                raise TooManyContexts("too many turns wait already")
            self._typed = self.begin(self._spec, self._framing(), self._audio)
            if self._turns.add(self._typed):
                self.start(self._typed)
        return self._typed

    def _framing(self) -> Plain:
        """Of the next turn."""
        return Plain(silence_s=SILENCE_S)

    async def _clear(self) -> None:
        await self._stop_turns()
        self._tell_sequence("Cleared")

    async def _stop_turns(self) -> None:
        self._typed = None
        for turn in self._turns.clear():
            if await self.stop(turn):
                self.finished(turn)

    def over(self, utterance: StreamedText[Plain], error: AntiphonError | None) -> None:
        if utterance is self._typed:
            self._typed = None
        if error is not None:
            self.refused(error, None)
        self._tell_over(utterance)
        super().over(utterance, error)
        if (following := self._turns.over(utterance)) is not None:
            self.start(following)

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        told = errors.body(error)
        self.tell({"type": "Error", "code": str(told["code"]), "description": told["message"]})

    def _tell_over(self, turn: StreamedText[Plain]) -> None:
        """All of a turn has left."""
        self._tell_sequence("Flushed")

    def _tell_sequence(self, kind: str) -> None:
        self.tell({"type": kind, "sequence_id": self._sequence})
        self._sequence += 1
