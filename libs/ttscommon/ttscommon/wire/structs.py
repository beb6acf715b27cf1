"""Values that fields of messages may hold, and structs that travel by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Self, TypeAlias, TypeVar

import msgspec

from ttscommon.wire.errors import MalformedMessage

VERSION: Final = 1
MAX_TEXT_CHARS: Final = 20_000
MAX_MARK_BYTES: Final = 4096

Identifier: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]

T = TypeVar("T")


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What msgspec makes of it; raises MalformedMessage."""
    try:
        return decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedMessage(str(error)) from error


class AsMessagePack:
    """A struct's form as MessagePack."""

    __slots__ = ()

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises MalformedMessage."""
        return decoded(lambda given: msgspec.msgpack.decode(given, type=cls), data)


class AsJson:
    """A struct's form as JSON, which operators read at the broker."""

    __slots__ = ()

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises MalformedMessage."""
        return decoded(lambda given: msgspec.json.decode(given, type=cls), data)
