"""What clients may send, parsed once. The protocol itself is described in docs/protocol.md."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gateway import errors
from gateway.errors import InvalidJson, Unsupported

DEFAULT: Final = "default"

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]
SampleRate: TypeAlias = Annotated[int, Field(ge=8000, le=48_000)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
RequestId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Position: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SpeechBody(_Message):
    """The body of POST /v1/audio/speech: OpenAI's fields, and ours at the end."""

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
        if self.response_format not in ("wav", "pcm"):
            raise Unsupported("response_format must be wav or pcm", param="response_format")
        if self.speed != 1.0:
            raise Unsupported("speed must be 1.0: it cannot be changed here", param="speed")
        if self.instructions:
            raise Unsupported("instructions are not supported", param="instructions")
        if self.stream_format not in (None, "audio"):
            raise Unsupported("stream_format must be audio", param="stream_format")


class SessionConfig(_Message):
    """What holds for the requests that follow."""

    type: Literal["session.config"]
    model: Name = DEFAULT
    voice: Name = DEFAULT
    language: Name | None = None
    seed: Seed | None = None
    sample_rate: SampleRate | None = None
    response_format: str = "pcm"
    resumable: bool = False

    def refuse_unsupported(self) -> None:
        """Raises Unsupported."""
        if self.response_format != "pcm":
            raise Unsupported("response_format must be pcm on a socket", param="response_format")


class InputText(_Message):
    """Some of the current request's text."""

    type: Literal["input.text"]
    text: str


class InputDone(_Message):
    """The current request's text is complete."""

    type: Literal["input.done"]


class CancelSpeech(_Message):
    """Stop one request, or all."""

    type: Literal["cancel"]
    request_id: Name | None = None


class SessionResume(_Message):
    """Go on with a request whose connection was lost, from a sample on."""

    type: Literal["session.resume"]
    request_id: RequestId
    from_sample: Position = 0


class SessionClose(_Message):
    """Finish and close."""

    type: Literal["session.close"]


ClientMessage: TypeAlias = (
    SessionConfig | SessionResume | InputText | InputDone | CancelSpeech | SessionClose
)

_client_message: Final[TypeAdapter[ClientMessage]] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def parse_body(data: bytes) -> SpeechBody:
    """Raises BadRequest."""
    try:
        return SpeechBody.model_validate_json(data)
    except ValidationError as error:
        raise errors.from_validation(error) from error


def parse_message(data: str) -> ClientMessage:
    """Raises BadRequest; InvalidJson when it is no JSON object at all."""
    try:
        return _client_message.validate_json(data)
    except ValidationError as error:
        failure = errors.from_validation(error, tagged=True)
        if isinstance(failure, InvalidJson):
            failure = InvalidJson("a message must be a JSON object with a 'type'")
        raise failure from error
