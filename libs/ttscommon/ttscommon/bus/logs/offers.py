"""Asks writers and readers for records, and answers with them; see ttscommon.wire.offers."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from ttscommon.bus.link import Incoming, Link
from ttscommon.wire.errors import BusUnavailable, MalformedMessage
from ttscommon.wire.messages import Chunk, End, LogRecord, Position, decode_record
from ttscommon.wire.offers import WHERE, Offer
from ttscommon.wire.repairs import Nack, Resend
from ttscommon.wire.subjects import Log

log_ = structlog.get_logger(__name__)


async def ask(
    link: Link, log: Log, request_id: str, position: int, timeout_s: float
) -> list[LogRecord]:
    """What a reader of the log has from `position` on; nothing if it has no reader."""
    try:
        data = await link.request(log.live(request_id), Nack(position).encode(), timeout_s)
    except BusUnavailable:
        return []
    records: list[LogRecord] = []
    try:
        records.extend(Offer.decode(data).parsed())
    except MalformedMessage as error:
        log_.warning("offer.malformed", error=error.message)
    return records


async def where(link: Link, log: Log, request_id: str, timeout_s: float) -> Position | None:
    """Where the reader of an audio log stands; None without an answer."""
    try:
        record = decode_record(await link.request(log.live(request_id), WHERE, timeout_s))
    except BusUnavailable:
        return None
    except MalformedMessage as error:
        log_.warning("offer.malformed", error=error.message)
        return None
    return record if isinstance(record, Position) else None


async def answer(link: Link, question: Incoming, records: Sequence[Chunk | End]) -> None:
    """Answer a successor with as many records as fit one message."""
    await link.reply(question.reply, Offer.of(records).encode())


async def lacking(
    link: Link, log: Log, request_id: str, position: int, timeout_s: float
) -> tuple[int, list[LogRecord]]:
    """What the log's writer sends again from `position` on, and its epoch if that is all.

    Raises BusUnavailable if there is no writer.
    """
    data = await link.request(log.nack(request_id), Nack(position).encode(), timeout_s)
    try:
        resent = Resend.decode(data)
        return resent.epoch, resent.parsed()
    except MalformedMessage as error:
        log_.warning("resend.malformed", error=error.message)
        return 0, []
