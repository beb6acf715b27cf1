"""`WS /v1/speak`, whose turns a flush ends, and `/v2/speak`, whose turns can be interrupted."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from starlette.websockets import WebSocket

from gateway import errors
from gateway.audio import AudioFormat, PcmBlock
from gateway.audio.pipe import SILENCE_S
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.errors import TooManyContexts, Unsupported
from gateway.protocols.deepgram.http import Query, parse_query, spec_of
from gateway.protocols.fields import text_of
from gateway.protocols.framing import Plain
from gateway.protocols.session import Leave
from gateway.protocols.shared.context import tenant_of
from gateway.protocols.shared.sockets import JsonObject, JsonSession
from gateway.protocols.utterance import StreamedText
from gateway.requests import GatewayContext, Speech, SpeechSpec
from ttscommon.wire.errors import AntiphonError, BadRequest
from ttscommon.wire.messages import WordTime

_ENCODING: Final = "linear16"
# Clients keep a socket for an hour, and there is no message that keeps one alive.
_POOLED_S: Final = 3600.0


class DeepgramSession(JsonSession[Plain]):
    """Binary frames are audio. `Flushed` follows the last audio of everything before its flush."""

    greeting: ClassVar[str] = "Metadata"
    uuids: ClassVar[Mapping[str, Any]] = {"model_uuid": ""}
    _spec: SpeechSpec

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._query = Query()
        self._audio = AudioFormat()
        # The last turn, if its text is still coming in.
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
            if len(self.turns) >= self.settings.max_queued_requests:
                raise TooManyContexts("too many turns wait already")
            self._typed = self.begin(self._spec, self._framing(), self._audio)
            self.enqueue(self._typed)
        return self._typed

    def _framing(self) -> Plain:
        """Of the next turn."""
        return Plain(silence_s=SILENCE_S)

    async def _clear(self) -> None:
        await self._stop_turns()
        self._tell_sequence("Cleared")

    async def _stop_turns(self) -> None:
        self._typed = None
        for turn in self.turns.clear():
            if await self.stop(turn):
                self.finished(turn)

    def over(self, utterance: StreamedText[Plain], error: AntiphonError | None) -> None:
        if utterance is self._typed:
            self._typed = None
        if error is not None:
            self.refused(error, None)
        self._tell_over(utterance)
        super().over(utterance, error)

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        told = errors.body(error)
        self.tell({"type": "Error", "code": str(told["code"]), "description": told["message"]})

    def _tell_over(self, turn: StreamedText[Plain]) -> None:
        """All of a turn has left."""
        self._tell_sequence("Flushed")

    def _tell_sequence(self, kind: str) -> None:
        self.tell({"type": kind, "sequence_id": self._sequence})
        self._sequence += 1


class FluxTurn(Plain):
    """One turn: bare samples, and when they begin. `words`: those that it timed so far."""

    def __init__(self, tell: Callable[[JsonObject], None]) -> None:
        super().__init__()
        self.speech_id = f"dg_sp_{secrets.token_hex(6)}"
        self.words: list[WordTime] = []
        self._tell = tell
        self._started = False

    def start(self) -> None:
        """Tell that it begins; safe to call twice."""
        if not self._started:
            self._started = True
            self._tell({"type": "SpeechStarted", "speech_id": self.speech_id})

    def waits(self, speech: Speech, lacking: AntiphonError) -> None:
        self._tell({"type": "Warning", "code": "WAITING", "description": lacking.message})

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self.words += piece.words
        if piece.data:
            self.start()
        return super().audio(speech, piece)


class FluxSession(DeepgramSession):
    """Each turn is told by `SpeechStarted`, `SpeechMetadata` and `Flushed`."""

    greeting = "Connected"
    uuids: ClassVar[Mapping[str, Any]] = {"model_uuids": []}
    _sounded_s = 0.0
    _characters = 0

    async def take(self, message: JsonObject) -> None:
        match message.get("type"):
            case "Interrupt":
                await self._interrupt(message)
            case "Configure":
                self._configure(message)
            case "Close":
                if self._typed is not None:
                    self._flush()
                self.close()
            case "Clear":
                raise BadRequest("unknown message type 'Clear'", param="type")
            case _:
                await super().take(message)

    def emptied(self) -> None:
        """The last turn is over, and its client wants to go."""
        milliseconds = round(1000 * self._sounded_s)
        self.tell(
            {
                "type": "SessionMetadata",
                "total_audio_duration_ms": milliseconds,
                "total_input_character_count": self._characters,
                "total_billable_character_count": self._characters,
            }
        )
        super().emptied()

    def _framing(self) -> Plain:
        return FluxTurn(self.tell)

    def _tell_over(self, turn: StreamedText[Plain]) -> None:
        framing = cast(FluxTurn, turn.framing)
        framing.start()
        self.tell({"type": "SpeechMetadata", **self._metadata(turn)})
        self.tell({"type": "Flushed", "speech_id": framing.speech_id})

    def _metadata(self, turn: StreamedText[Plain]) -> dict[str, Any]:
        """Of a turn that is over, which counts from now on."""
        seconds, characters = turn.speech.delivery.duration_s, turn.text.characters
        self._sounded_s += seconds
        self._characters += characters
        return {
            "speech_id": cast(FluxTurn, turn.framing).speech_id,
            "audio_duration_ms": round(1000 * seconds),
            "input_character_count": characters,
            "billable_character_count": characters,
            "controls_applied": {
                "pronunciations_applied": 0,
                "breaks_applied": 0,
                "pronunciation_warnings": 0,
            },
        }

    async def _interrupt(self, message: JsonObject) -> None:
        """Stop what is spoken, and all that waits behind it."""
        turn = self.turns.spoken
        if turn is None or not turn.speech.delivery.samples:
            await self._stop_turns()
            self._warn("NO_AUDIO_GENERATED", "nothing is being spoken")
            return
        before_s = self._sounded_s
        offset_s = _offset_s(message)
        played_s = turn.speech.delivery.played_s() if offset_s is None else offset_s - before_s
        await self._stop_turns()
        metadata = self._metadata(turn)
        played_s = min(max(0.0, played_s), turn.speech.delivery.duration_s)
        words = cast(FluxTurn, turn.framing).words
        spoken = [word.word for word in words if word.start_s < played_s]
        self.tell(
            {
                "type": "SpeechInterrupted",
                "audio_played_ms": round(1000 * played_s),
                "text_spoken": " ".join(spoken),
                "text_remaining": " ".join(word.word for word in words[len(spoken) :]),
                "metadata": metadata,
            }
        )

    def _configure(self, message: JsonObject) -> None:
        """Turns that begin later are spoken so."""
        speed = message.get("speed")
        if isinstance(speed, int | float) and MIN_SPEED <= speed <= MAX_SPEED:
            self._spec = replace(self._spec, speed=float(speed))
            self.tell({"type": "ConfigureSuccess", "applied": {"speed": speed}})
            return
        told = {"code": "INVALID_VALUE", "field": "speed", "value": speed}
        wanted = f"speed is a number from {MIN_SPEED:g} to {MAX_SPEED:g}"
        self.tell({"type": "ConfigureFailure", **told, "description": wanted})

    def _warn(self, code: str, description: str) -> None:
        self.tell({"type": "Warning", "code": code, "description": description})


def _offset_s(message: JsonObject) -> float | None:
    """How far into the session's audio its listener was; raises BadRequest."""
    given = message.get("playback_offset")
    if given is None:
        return None
    value = given.get("value") if isinstance(given, dict) else None
    if not isinstance(value, int | float) or value < 0:
        raise BadRequest("'playback_offset': milliseconds are expected", param="playback_offset")
    return float(value) / 1000
