"""What clients may send on the socket, parsed once; see docs/protocol.md."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from gateway import errors
from gateway.errors import InvalidJson, Unsupported
from gateway.protocols.fields import (
    Name,
    Position,
    RequestId,
    SampleRate,
    Seed,
    StrictMessage,
    Token,
    WishFields,
)
from gateway.requests import DEFAULT


class SessionConfig(StrictMessage, WishFields):
    """What holds for the requests that follow."""

    type: Literal["session.config"]
    model: Name = DEFAULT
    voice: Name = DEFAULT
    seed: Seed | None = None
    sample_rate: SampleRate | None = None
    response_format: str = "pcm"
    resumable: bool = False

    def refuse_unsupported(self) -> None:
        """Raises Unsupported."""
        if self.response_format != "pcm":
            raise Unsupported("response_format must be pcm on a socket", param="response_format")


class InputText(StrictMessage):
    """Some of the current request's text."""

    type: Literal["input.text"]
    text: str


class InputDone(StrictMessage):
    """The current request's text is complete."""

    type: Literal["input.done"]


class CancelSpeech(StrictMessage):
    """Stop one request, or all."""

    type: Literal["cancel"]
    request_id: Name | None = None


class SessionResume(StrictMessage):
    """Go on with a request whose connection was lost, from a sample on."""

    type: Literal["session.resume"]
    request_id: RequestId
    token: Token
    from_sample: Position = 0


class SessionClose(StrictMessage):
    """Finish and close."""

    type: Literal["session.close"]


ClientMessage: TypeAlias = (
    SessionConfig | SessionResume | InputText | InputDone | CancelSpeech | SessionClose
)

_client_message: Final[TypeAdapter[ClientMessage]] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def parse_message(data: str) -> ClientMessage:
    """Raises BadRequest; InvalidJson when it is no JSON object at all."""
    try:
        return _client_message.validate_json(data)
    except ValidationError as error:
        failure = errors.from_validation(error, tagged=True)
        if isinstance(failure, InvalidJson):
            failure = InvalidJson("a message must be a JSON object with a 'type'")
        raise failure from error
