"""`WS /v2/speak`: turns with a beginning and an end of their own, which can be interrupted."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

from gateway.audio import PcmBlock
from gateway.audio.stretch import MAX_SPEED, MIN_SPEED
from gateway.protocols.deepgram.socket import DeepgramSession
from gateway.protocols.framing import Plain
from gateway.protocols.shared.sockets import JsonObject
from gateway.protocols.utterance import StreamedText
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError, BadRequest
from ttscommon.wire.messages import WordTime


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
        turn = self._turns.spoken
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
