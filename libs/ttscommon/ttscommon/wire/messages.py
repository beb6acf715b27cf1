"""Everything that travels on the bus: msgpack maps with a version and a type tag.

A message is parsed once, at the edge, and typed from there on. The structs lie by their nature in
`requests` and `records`, or here where no log holds them, and are to be had from here; what is
asked and answered on core subjects is in `repairs`, `epochs` and `lookups`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from ttscommon.wire.errors import MalformedMessage, UnsupportedVersion
from ttscommon.wire.records import (
    AudioChunk,
    Checkpoint,
    Chunk,
    CodecChunk,
    End,
    LogRecord,
    Outcome,
    Position,
    RowsPiece,
    SaidText,
    Spent,
    Takeover,
    TextPiece,
    WordTime,
)
from ttscommon.wire.requests import (
    MAX_SPEAKERS,
    MAX_TURNS,
    Reference,
    Sampling,
    SpeechRequest,
    Turn,
)
from ttscommon.wire.structs import MAX_TEXT_CHARS, VERSION, Identifier
from ttscommon.wire.tensors import Tensor


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="t"):
    """The listener is gone or has heard enough."""

    request_id: Identifier
    reason: str = ""
    v: int = VERSION


class Playback(msgspec.Struct, frozen=True, tag="playback", tag_field="t"):
    """What the listener is doing: how far into the request's audio playback is now.

    Relative to the moment of arrival, so that no two machines' clocks are ever compared.
    """

    request_id: Identifier
    position_s: float
    v: int = VERSION


class Listening(msgspec.Struct, frozen=True, tag="listening", tag_field="t"):
    """The request is heard through the gateway of this worker id."""

    request_id: Identifier
    gateway: Identifier
    v: int = VERSION


MAX_MESSAGE_BYTES: Final = 1 << 20

Message: TypeAlias = SpeechRequest | LogRecord | Cancel | Playback | Listening


class _Header(msgspec.Struct):
    v: int = 0


_encoder: Final = msgspec.msgpack.Encoder()
_header_decoder: Final = msgspec.msgpack.Decoder(_Header)
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Serialise; raises MalformedMessage if the result would not fit the bus."""
    data = _encoder.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message of {len(data)} bytes is over {MAX_MESSAGE_BYTES}")
    return data


def decode(data: bytes) -> Message:
    """Parse one message; raises MalformedMessage or UnsupportedVersion, never anything else."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message of {len(data)} bytes is over {MAX_MESSAGE_BYTES}")
    try:
        header = _header_decoder.decode(data)
        if header.v != VERSION:
            raise UnsupportedVersion(f"message version {header.v}, this service speaks {VERSION}")
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error


def decode_record(data: bytes) -> LogRecord:
    """`decode` for what a log may hold; raises MalformedMessage for anything else."""
    message = decode(data)
    if isinstance(message, Chunk | Position | Takeover | End):
        return message
    raise MalformedMessage(f"{type(message).__name__} does not belong in a log")
