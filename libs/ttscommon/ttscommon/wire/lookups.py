"""Questions of a gateway to a talker about its model outside of jobs, and their answers."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from ttscommon.wire.structs import Text, decoded
from ttscommon.wire.tensors import Tensor

SECONDS: Final = 5.0
"""A gateway waits so long for an answer."""


class PhonesWanted(msgspec.Struct, frozen=True, tag="phones_wanted"):
    """How the model reads a text. language: a BCP 47 tag."""

    text: Text
    language: str


class StyleWanted(msgspec.Struct, frozen=True, tag="style_wanted"):
    """The numbers that a voice or a blend is made of."""

    voice: str


class PhonesFound(msgspec.Struct, frozen=True, tag="phones"):
    """A text in the symbols that the model reads, and their numbers in its table."""

    symbols: str
    ids: tuple[int, ...]


class Style(msgspec.Struct, frozen=True, tag="style"):
    """rows: [lengths, values] float32."""

    rows: Tensor


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Why there is no answer: see End."""

    code: str
    message: str
    param: str | None = None


Lookup: TypeAlias = PhonesWanted | StyleWanted
Found: TypeAlias = PhonesFound | Style | Refused

_lookups: Final[msgspec.msgpack.Decoder[Lookup]] = msgspec.msgpack.Decoder(Lookup)
_found: Final[msgspec.msgpack.Decoder[Found]] = msgspec.msgpack.Decoder(Found)


def encode(one: Lookup | Found) -> bytes:
    return msgspec.msgpack.encode(one)


def decode_lookup(data: bytes) -> Lookup:
    """Raises MalformedMessage."""
    return decoded(_lookups.decode, data)


def decode_found(data: bytes) -> Found:
    """Raises MalformedMessage."""
    return decoded(_found.decode, data)
