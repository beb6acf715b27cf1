"""What readers heard live and the log lacks: a writer's successor asks for it, readers offer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from ttscommon.bus.link import Incoming, Link
from ttscommon.errors import BusUnavailable, MalformedMessage
from ttscommon.messages import (
    MAX_MESSAGE_BYTES,
    Chunk,
    End,
    LogRecord,
    Position,
    decode_record,
    encode,
)
from ttscommon.subjects import Log

_ENVELOPE_BYTES: Final = 1024

log_ = structlog.get_logger(__name__)


async def ask(
    link: Link, log: Log, request_id: str, position: int, timeout_s: float
) -> list[LogRecord]:
    """What a reader of the log has from `position` on; nothing if nobody reads it."""
    try:
        data = await link.request(log.offer(request_id), str(position).encode(), timeout_s)
    except BusUnavailable:
        return []
    return _decode(data)


async def where(link: Link, log: Log, request_id: str, timeout_s: float) -> Position | None:
    """Where the reader of an audio log stands; None if nobody says so."""
    try:
        record = decode_record(await link.request(log.offer(request_id), b"", timeout_s))
    except BusUnavailable:
        return None
    except MalformedMessage as error:
        log_.warning("offer.malformed", error=error.message)
        return None
    return record if isinstance(record, Position) else None


async def answer(link: Link, question: Incoming, records: Sequence[Chunk | End]) -> None:
    """Answer a successor with as many records as fit one message."""
    parts: list[bytes] = []
    for record in records:
        parts.append(encode(record))
        if sum(map(len, parts)) > MAX_MESSAGE_BYTES - _ENVELOPE_BYTES:
            parts.pop()
            break
    await link.reply(question.reply, msgspec.msgpack.encode(parts))


def _decode(data: bytes) -> list[LogRecord]:
    """The records of an offer, as far as they are well-formed."""
    records: list[LogRecord] = []
    try:
        parts = msgspec.msgpack.decode(data, type=list[bytes])
        records.extend(decode_record(part) for part in parts)
    except (msgspec.MsgspecError, ValueError, MalformedMessage) as error:
        log_.warning("offer.malformed", error=str(error))
    return records
