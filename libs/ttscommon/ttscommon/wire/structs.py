"""Structs that travel by themselves, outside of jobs and logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

import msgspec

from ttscommon.wire.errors import MalformedMessage

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
