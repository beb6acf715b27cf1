"""The body of POST /v1/audio/speech, parsed once."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, ValidationError

from gateway import errors
from gateway.errors import Unsupported
from gateway.protocols.fields import Name, SampleRate, Seed, StrictMessage
from gateway.requests import DEFAULT

MEDIA_TYPES: Final = {"wav": "audio/wav", "pcm": "audio/pcm"}


class SpeechBody(StrictMessage):
    """OpenAI's fields, and ours at the end."""

    input: str
    model: Name = DEFAULT
    voice: Name = DEFAULT
    response_format: str = "wav"
    speed: Annotated[float, Field(strict=False)] = 1.0
    instructions: str | None = None
    stream_format: str | None = None
    stream: bool | None = None
    seed: Seed | None = None
    sample_rate: SampleRate | None = None
    language: Name | None = None
    resumable: bool = False

    @property
    def streamed(self) -> bool:
        """A WAV is sent whole unless asked otherwise, because only then its header is exact."""
        return self.response_format == "pcm" if self.stream is None else self.stream

    def refuse_unsupported(self) -> None:
        """Raises Unsupported for OpenAI's wishes that are not granted here."""
        refuse_format(self.response_format)
        if self.speed != 1.0:
            raise Unsupported("speed must be 1.0: it cannot be changed here", param="speed")
        if self.instructions:
            raise Unsupported("instructions are not supported", param="instructions")
        if self.stream_format not in (None, "audio"):
            raise Unsupported("stream_format must be audio", param="stream_format")


def refuse_format(response_format: str) -> None:
    """Raises Unsupported for an audio format that is not made here."""
    if response_format not in MEDIA_TYPES:
        raise Unsupported("response_format must be wav or pcm", param="response_format")


def parse_body(data: bytes) -> SpeechBody:
    """Raises BadRequest."""
    try:
        return SpeechBody.model_validate_json(data)
    except ValidationError as error:
        raise errors.from_validation(error) from error
