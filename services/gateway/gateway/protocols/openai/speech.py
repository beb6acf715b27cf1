"""The body of POST /v1/audio/speech, and its answers that are not audio alone: events, captions."""

from __future__ import annotations

import base64
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import AliasChoices, BaseModel, Field, field_validator

from gateway import errors
from gateway.audio import AudioFormat, PcmBlock
from gateway.audio.encoders import ready
from gateway.errors import Unsupported
from gateway.protocols.fields import (
    LenientMessage,
    MaxWait,
    Name,
    OptionFields,
    SampleRate,
    Seed,
    Speed,
    Spoken,
)
from gateway.protocols.framing import Framing, WholeJson
from gateway.requests import DEFAULT, Speech
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime

# Bare samples in this shape mean 24 kHz: clients have the number built in.
SAMPLE_RATE: Final = 24_000

FORMATS: Final = MappingProxyType(
    {
        "mp3": AudioFormat("mp3"),
        "opus": AudioFormat("opus"),
        "aac": AudioFormat("aac"),
        "flac": AudioFormat("flac"),
        "wav": AudioFormat(container="wav"),
        "pcm": AudioFormat(),
    }
)


class VoiceId(BaseModel):
    """A voice, as OpenAI's newest clients name one."""

    id: Name


class SpeechBody(LenientMessage, OptionFields):
    """OpenAI's fields, and ours at the end. Unknown fields are ignored.

    Hugging Face's clients call the text `inputs`.
    """

    input: Spoken = Field(validation_alias=AliasChoices("input", "inputs"))
    model: Name = DEFAULT
    voice: Name = DEFAULT
    response_format: Annotated[str, Field(json_schema_extra={"enum": [*FORMATS]})] = "mp3"
    speed: Speed = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    stream: bool = True
    seed: Seed | None = None
    sample_rate: SampleRate = SAMPLE_RATE
    resumable: bool = False
    max_wait_s: MaxWait | None = None

    @field_validator("voice", mode="before", json_schema_input_type=Name | VoiceId)
    @classmethod
    def _voice_id(cls, value: Any) -> Any:
        """OpenAI names a voice by a string or by {"id": ...}."""
        return value.get("id") if isinstance(value, dict) else value

    @property
    def audio(self) -> AudioFormat:
        """Raises Unsupported."""
        return format_named(self.response_format)


def format_named(response_format: str) -> AudioFormat:
    """Raises Unsupported for an audio format that is not made here."""
    found = FORMATS.get(response_format)
    if found is None:
        known = ", ".join(FORMATS)
        raise Unsupported(f"response_format must be one of {known}", param="response_format")
    ready(found)
    return found


class SpeechEvents(Framing):
    """OpenAI's `speech.audio.delta` and `speech.audio.done`.

    `characters`: of the text. They count as input tokens, and frames of the model as output
    tokens: what a deployment spends.
    """

    media_type = "text/event-stream"
    blames = "input"

    def __init__(self, characters: int) -> None:
        self._characters = characters

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not piece.data:
            return b""
        audio = base64.b64encode(piece.data).decode()
        return event({"type": "speech.audio.delta", "audio": audio})

    def end(self, speech: Speech) -> bytes:
        frames = round(
            speech.delivery.duration_s * speech.spec.stretch * speech.spec.model.frame_rate_hz
        )
        usage = {
            "input_tokens": self._characters,
            "output_tokens": frames,
            "total_tokens": self._characters + frames,
        }
        return event({"type": "speech.audio.done", "usage": usage})

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return event({"type": "error", "error": errors.body(error)})


def event(content: dict[str, Any]) -> bytes:
    """One line of data and an empty one."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


class CaptionLines(Framing):
    """One JSON object a line: audio, and the words that begin with it."""

    media_type = "application/json"
    blames = "input"

    def __init__(self, audio_format: str) -> None:
        self._format = audio_format

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not piece.data and not piece.words:
            return b""
        audio = base64.b64encode(piece.data).decode()
        told = {"audio": audio, "audio_format": self._format, "timestamps": _times(piece.words)}
        return msgspec.json.encode(told) + b"\n"

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return msgspec.json.encode({"error": errors.body(error)}) + b"\n"


class CaptionedWhole(WholeJson):
    """The same as one object."""

    field = "audio"

    def __init__(self, audio_format: str) -> None:
        super().__init__()
        self._format = audio_format
        self._words: list[dict[str, Any]] = []

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._words += _times(piece.words)
        return super().audio(speech, piece)

    def beside(self) -> dict[str, Any]:
        return {"audio_format": self._format, "timestamps": self._words}


def _times(words: tuple[WordTime, ...]) -> list[dict[str, Any]]:
    return [
        {"word": w.word, "start_time": round(w.start_s, 4), "end_time": round(w.end_s, 4)}
        for w in words
    ]
