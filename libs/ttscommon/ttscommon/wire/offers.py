"""A successor's question to the readers of its predecessor, and their answers.

On the log's live subject: that an answer is wanted tells a question from a record. A successor in
a log of codes or text asks with a Nack and gets an Offer; one in a log of audio asks with `WHERE`
and gets a Position.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, Self

import msgspec

from ttscommon.wire.messages import Chunk, End, LogRecord, decode_record, encode
from ttscommon.wire.repairs import fitting
from ttscommon.wire.structs import decoded

WHERE: Final = b""
# Readers of audio keep nothing of what they heard, so only other records say it.
COMMITTED: Final = "C"


class Offer(msgspec.Struct, frozen=True):
    """Records that a reader heard, and that the log may lack."""

    records: list[bytes]

    @classmethod
    def of(cls, heard: Iterable[Chunk | End]) -> Self:
        """As many as fit one message."""
        return cls(fitting(map(encode, heard)))

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self.records)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises MalformedMessage."""
        return cls(decoded(partial(msgspec.msgpack.decode, type=list[bytes]), data))

    def parsed(self) -> Iterable[LogRecord]:
        """One after another; raises MalformedMessage at the first that is no record."""
        return map(decode_record, self.records)


def committed(headers: dict[str, str] | None) -> int | None:
    """Up to which position the log is known to be, if a live record's headers say so."""
    told = (headers or {}).get(COMMITTED, "")
    return int(told) if told.isdigit() else None
