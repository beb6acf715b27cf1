"""Records in answers: what readers heard and the log lacks, and what writers sent and readers lack.

A writer's successor asks readers where they listen anyway; that an answer is wanted tells the
question from a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import structlog

from ttscommon.bus.link import Incoming, Link
from ttscommon.wire.errors import BusUnavailable, MalformedMessage
from ttscommon.wire.messages import (
    MAX_MESSAGE_BYTES,
    Chunk,
    End,
    LogRecord,
    Position,
    decode_record,
    encode,
)
from ttscommon.wire.subjects import Log

_ENVELOPE_BYTES: Final = 1024

log_ = structlog.get_logger(__name__)


async def ask(
    link: Link, log: Log, request_id: str, position: int, timeout_s: float
) -> list[LogRecord]:
    """What a reader of the log has from `position` on; nothing if nobody reads it."""
    try:
        data = await link.request(log.live(request_id), str(position).encode(), timeout_s)
    except BusUnavailable:
        return []
    return _decode(data)


async def where(link: Link, log: Log, request_id: str, timeout_s: float) -> Position | None:
    """Where the reader of an audio log stands; None if nobody says so."""
    try:
        record = decode_record(await link.request(log.live(request_id), b"", timeout_s))
    except BusUnavailable:
        return None
    except MalformedMessage as error:
        log_.warning("offer.malformed", error=error.message)
        return None
    return record if isinstance(record, Position) else None


async def answer(link: Link, question: Incoming, records: Sequence[Chunk | End]) -> None:
    """Answer a successor with as many records as fit one message."""
    parts = _fitting(map(encode, records))
    await link.reply(question.reply, msgspec.msgpack.encode(parts))


async def send_again(link: Link, question: Incoming, epoch: int, kept: Sequence[bytes]) -> None:
    """Answer a reader with what it lacks, as far as it fits one message.

    `epoch`: the writer's, if there is no more than what is kept, or 0.
    """
    parts = _fitting(kept)
    whole = epoch if len(parts) == len(kept) else 0
    await link.reply(question.reply, msgspec.msgpack.encode((whole, parts)))


async def lacking(
    link: Link, log: Log, request_id: str, position: int, timeout_s: float
) -> tuple[int, list[LogRecord]]:
    """What the log's writer sends again from `position` on, and its epoch if that is all.

    Raises BusUnavailable if there is no writer.
    """
    data = await link.request(log.nack(request_id), str(position).encode(), timeout_s)
    try:
        epoch, parts = msgspec.msgpack.decode(data, type=tuple[int, list[bytes]])
        return epoch, [decode_record(part) for part in parts]
    except (msgspec.MsgspecError, ValueError, MalformedMessage) as error:
        log_.warning("resend.malformed", error=str(error))
        return 0, []


def _fitting(parts: Iterable[bytes]) -> list[bytes]:
    """The first of them, as many as fit one message."""
    found: list[bytes] = []
    room = MAX_MESSAGE_BYTES - _ENVELOPE_BYTES
    for part in parts:
        room -= len(part)
        if room < 0:
            break
        found.append(part)
    return found


def _decode(data: bytes) -> list[LogRecord]:
    """The records of an offer, as far as they are well-formed."""
    records: list[LogRecord] = []
    try:
        parts = msgspec.msgpack.decode(data, type=list[bytes])
        records.extend(decode_record(part) for part in parts)
    except (msgspec.MsgspecError, ValueError, MalformedMessage) as error:
        log_.warning("offer.malformed", error=str(error))
    return records
