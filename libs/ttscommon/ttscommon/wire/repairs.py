"""Messages between a log's readers and writers: when something is missing, and at a takeover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Self

import msgspec

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import MAX_MESSAGE_BYTES, Chunk, End, LogRecord, decode_record, encode
from ttscommon.wire.structs import AsMessagePack, decoded

# A writer of audio answers so, and sends what is missing live.
HEEDED: Final = b""

_ENVELOPE_BYTES: Final = 1024
_GRANT: Final = b"to "
_MOST_DIGITS: Final = 20


class Nack(msgspec.Struct, frozen=True):
    """A reader lacks what comes at `position`. A writer's successor asks readers for theirs so."""

    position: int

    def encode(self) -> bytes:
        return str(self.position).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises MalformedMessage."""
        try:
            return cls(int(data))
        except ValueError as error:
            raise MalformedMessage("a position was wanted") from error


class CreditGrant(msgspec.Struct, frozen=True):
    """A reader of audio has room up to the sample `limit`."""

    limit: int

    def encode(self) -> bytes:
        return _GRANT + str(self.limit).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises MalformedMessage."""
        told = data.removeprefix(_GRANT)
        if not (data.startswith(_GRANT) and told.isdigit() and len(told) < _MOST_DIGITS):
            raise MalformedMessage("a grant was wanted")
        return cls(int(told))


def reader_says(data: bytes) -> Nack | CreditGrant:
    """What a reader of audio tells its writer; raises MalformedMessage."""
    return (CreditGrant if data.startswith(_GRANT) else Nack).decode(data)


class Resend(msgspec.Struct, AsMessagePack, frozen=True, array_like=True):
    """A writer's answer to a Nack. epoch: the writer's, if that is all that there is; 0 if more."""

    epoch: int
    records: list[bytes]

    @classmethod
    def of(cls, epoch: int, kept: Sequence[bytes]) -> Self:
        """As many as fit one message; `epoch` if nothing is missing before them."""
        parts = fitting(kept)
        return cls(epoch if len(parts) == len(kept) else 0, parts)

    def parsed(self) -> list[LogRecord]:
        """Raises MalformedMessage."""
        return [decode_record(part) for part in self.records]


def fitting(parts: Iterable[bytes]) -> list[bytes]:
    """The first of them, as many as fit one message."""
    found: list[bytes] = []
    room = MAX_MESSAGE_BYTES - _ENVELOPE_BYTES
    for part in parts:
        room -= len(part)
        if room < 0:
            break
        found.append(part)
    return found


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
