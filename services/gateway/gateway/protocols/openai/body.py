"""The body of POST /v1/audio/speech, parsed once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator

from gateway.audio import AudioFormat
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
from gateway.requests import DEFAULT

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
