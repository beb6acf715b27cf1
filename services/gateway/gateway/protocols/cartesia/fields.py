"""Fields of Cartesia's clients: one request object, over HTTP and on the socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from gateway import errors
from gateway.audio import AudioFormat
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.protocols.fields import LenientMessage, Name, SampleRate
from gateway.requests import DEFAULT, GatewayContext, SpeechSpec
from gateway.requests.options import RequestOptions
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime

_NAMED_SPEEDS = {"slowest": 0.6, "slow": 0.8, "normal": 1.0, "fast": 1.2, "fastest": 1.5}


class OutputFormat(LenientMessage):
    """Rates in Hz; `encoding` counts where the container holds bare samples."""

    container: Literal["raw", "wav", "mp3"] = "raw"
    encoding: Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"] = "pcm_s16le"
    sample_rate: SampleRate = 44_100
    bit_rate: Annotated[int, Field(ge=8_000, le=320_000)] | None = None

    @property
    def audio(self) -> AudioFormat:
        if self.container == "mp3":
            return AudioFormat("mp3", bit_rate=self.bit_rate)
        codec: Any = self.encoding.removeprefix("pcm_") if "law" in self.encoding else self.encoding
        return AudioFormat(codec, "wav" if self.container == "wav" else "none")


class GenerationFields(LenientMessage):
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] = 1.0
    volume: Annotated[float, Field(ge=0.5, le=2.0)] = 1.0
    emotion: Annotated[str, Field(max_length=64)] | None = None


class Speak(LenientMessage):
    """One request, or one message of a context."""

    transcript: str = ""
    model_id: str = DEFAULT
    voice: str = DEFAULT
    output_format: OutputFormat = OutputFormat()
    language: Name | None = None
    locale: Name | None = None
    generation_config: GenerationFields = GenerationFields()
    speed: float | str | None = None
    add_timestamps: bool = False
    context_id: Annotated[str, Field(max_length=256)] = ""
    continue_: Annotated[bool, Field(alias="continue")] = False
    flush: bool = False
    cancel: bool = False
    max_buffer_delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 3000

    @field_validator("voice", mode="before", json_schema_input_type=str | dict[str, Any])
    @classmethod
    def _voice_id(cls, value: Any) -> Any:
        """A voice is a string, or an object with its id; an embedding means the default."""
        return value.get("id", DEFAULT) if isinstance(value, dict) else value

    @property
    def pace(self) -> float:
        """How many times as fast as usual."""
        if isinstance(self.speed, str):
            return _NAMED_SPEEDS.get(self.speed, 1.0)
        if isinstance(self.speed, float) and MIN_SPEED <= self.speed <= MAX_SPEED:
            return self.speed
        return self.generation_config.speed

    @property
    def options(self) -> RequestOptions:
        """What it asks for besides; models that take no instructions drop the emotion."""
        emotion = self.generation_config.emotion
        return RequestOptions(language=self.locale or self.language, instructions=emotion)


async def spec_of(
    context: GatewayContext, tenant: str, asked: Speak, waits_s: float = 0.0
) -> SpeechSpec:
    """Raises Unavailable; names that mean nothing here mean the defaults."""
    output = asked.output_format
    return await context.spec(
        tenant,
        model=asked.model_id,
        voice=asked.voice,
        names="any",
        sample_rate=output.audio.rate_for(output.sample_rate),
        speed=asked.pace,
        gain=asked.generation_config.volume,
        options=asked.options,
        max_wait_s=waits_s,
    )


def error_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    told, status = errors.body(error), errors.edge(error).status
    return {
        "title": HTTPStatus(status).phrase,
        "message": told["message"],
        "error_code": told["code"],
        "request_id": request_id,
        "status_code": status,
    }


def word_timestamps(words: Sequence[WordTime]) -> dict[str, Any]:
    return {
        "words": [word.word for word in words],
        "start": [round(word.start_s, 4) for word in words],
        "end": [round(word.end_s, 4) for word in words],
    }
