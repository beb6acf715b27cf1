"""Messages of clients on the native socket, parsed once; see docs/protocol.md."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from pydantic import Field, TypeAdapter, ValidationError

from gateway import errors
from gateway.errors import InvalidJson, Unsupported
from gateway.protocols.fields import (
    MaxWait,
    Name,
    OptionFields,
    Position,
    Recording,
    RequestId,
    SampleRate,
    Seed,
    Speed,
    StrictMessage,
    Token,
)
from gateway.protocols.shared.bounded_json import Json
from gateway.requests import DEFAULT, IncrementalText
from ttscommon.wire.errors import AntiphonError, BadRequest
from ttscommon.wire.pieces import Alphabet, Phones
from ttscommon.wire.tensors import FloatRows, RowDtype, RowKind


class SessionConfig(StrictMessage, OptionFields):
    """What holds for the requests that follow."""

    type: Literal["session.config"]
    model: Name = DEFAULT
    voice: Name = DEFAULT
    seed: Seed | None = None
    sample_rate: SampleRate | None = None
    speed: Speed = 1.0
    max_wait_s: MaxWait = 0.0
    response_format: str = "pcm"
    resumable: bool = False

    def refuse_unsupported(self) -> None:
        """Raises Unsupported."""
        if self.response_format != "pcm":
            raise Unsupported("response_format must be pcm on a socket", param="response_format")
        if self.speech is not None:
            raise Unsupported("what is said to a model comes with input.speech", param="speech")


class OfContext(StrictMessage):
    """With a `context_id` it is about that context, else about the session's own requests."""

    context_id: Name | None = None


class InputText(OfContext):
    """Some of the current request's text."""

    type: Literal["input.text"]
    text: str


class InputFlush(OfContext):
    """A sentence of the current request ends here, whatever its last character is."""

    type: Literal["input.flush"]


class InputPhones(OfContext):
    """A word and its pronunciation: phones of the model, separated by spaces, or IPA."""

    type: Literal["input.phones"]
    text: Annotated[str, Field(min_length=1, max_length=200)]
    phones: Annotated[str, Field(min_length=1, max_length=1000)]
    alphabet: Alphabet = "model"


class InputPause(OfContext):
    """Silence between what came before and what follows."""

    type: Literal["input.pause"]
    seconds: Annotated[float, Field(gt=0.0, le=10.0, strict=False)]


class InputSpeech(OfContext):
    """What is said to the model, a recording as in `ref_audio`; before any text of its request."""

    type: Literal["input.speech"]
    audio: Recording


class EncodedRows(StrictMessage):
    """See FloatRows; `data` in base64."""

    kind: RowKind
    dtype: RowDtype
    shape: tuple[Position, Position]
    data: str
    crc32: Annotated[int, Field(ge=0, lt=1 << 32)]
    places: tuple[Position, ...] = ()


class InputRows(StrictMessage):
    """Rows `start` and following of a request, in place of text. Without any, the request is opened
    and its rows come over another connection.
    """

    type: Literal["input.rows"]
    request_id: RequestId | None = None
    start: Position = 0
    rows: EncodedRows | None = None


class InputAttach(StrictMessage):
    """The rows of this request come over this connection from now on."""

    type: Literal["input.attach"]
    request_id: RequestId
    token: Token


class InputDone(OfContext):
    """The current request's text is complete, or the rows of the one that is named."""

    type: Literal["input.done"]
    request_id: RequestId | None = None


class CancelSpeech(OfContext):
    """Stop one request, or all. `played_s`: how far the listener had heard it."""

    type: Literal["cancel"]
    request_id: Name | None = None
    played_s: Annotated[float, Field(ge=0.0, le=1e6, strict=False)] | None = None


class SessionResume(OfContext):
    """Go on with a request whose connection was lost, from a sample on."""

    type: Literal["session.resume"]
    request_id: RequestId
    token: Token
    from_sample: Position = 0


class SessionClose(StrictMessage):
    """Finish and close."""

    type: Literal["session.close"]


ClientMessage: TypeAlias = (
    SessionConfig
    | SessionResume
    | InputText
    | InputFlush
    | InputPhones
    | InputPause
    | InputSpeech
    | InputRows
    | InputAttach
    | InputDone
    | CancelSpeech
    | SessionClose
)
InputMessage: TypeAlias = InputText | InputFlush | InputPhones | InputPause

_client_message: Final[TypeAdapter[ClientMessage]] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def control(kind: str, **fields: Any) -> str:
    """A message to a client."""
    return msgspec.json.encode({"type": kind, **fields}).decode()


def error_message(error: AntiphonError, request_id: str | None = None, **about: Any) -> str:
    """An error, about a request (`about`: its other names) or about the session."""
    told = errors.body(error)
    wait_s = errors.retry_after_s(error)
    if wait_s is not None:
        told["retry_after_s"] = wait_s
    return control("error", **about, request_id=request_id, error=told)


def rows_of(given: EncodedRows) -> FloatRows:
    """Raises BadRequest for rows that are not what they say."""
    try:
        data = base64.b64decode(given.data, validate=True)
        shape = (given.shape[0], given.shape[1])
        return FloatRows(given.kind, given.dtype, shape, data, given.crc32, given.places)
    except ValueError as error:
        raise BadRequest(f"rows: {error}", param="rows") from error


def write(text: IncrementalText, message: InputMessage) -> None:
    """Put what a message brings into a request's text; raises TextTooLong."""
    match message:
        case InputText(text=some):
            text.add(some)
        case InputFlush():
            text.boundary()
        case InputPhones(text=word, phones=phones, alphabet=alphabet):
            text.phones(Phones(word, phones, alphabet))
        case InputPause(seconds=seconds):
            text.pause(seconds)


def parse_message(given: Json) -> ClientMessage:
    """Raises BadRequest; InvalidJson when it is no JSON object at all."""
    try:
        return _client_message.validate_json(given.data, context=given)
    except ValidationError as error:
        failure = errors.from_validation(error, tagged=True)
        if isinstance(failure, InvalidJson):
            failure = InvalidJson("a message must be a JSON object with a 'type'")
        raise failure from error
