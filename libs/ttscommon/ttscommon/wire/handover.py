"""A job that the reaper hands to a live worker directly, past a queue that has no leader."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest

Answer: TypeAlias = Literal[b"+", b"-"]
"""What the worker says to it; that it has no room is one of many reasons."""

TAKEN: Final[Answer] = b"+"
FULL: Final[Answer] = b"-"


class HandOver(msgspec.Struct, frozen=True):
    """The job, the epoch it is to be written with, what its lease said, and its trace's headers."""

    request: SpeechRequest
    epoch: int
    receipt: str
    sequence: int
    deaths: int = 0
    bounces: int = 0
    failures: int = 0
    trace: dict[str, str] = {}
    shared: int = 0
    dead: tuple[str, ...] = ()
    silences: int = 0

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> HandOver:
        """Raises MalformedMessage."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise MalformedMessage(str(error)) from error
