"""Reads and fenced commits on the per-request logs in JetStream."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any, Final

import nats.errors
import nats.js.errors
import structlog
from nats.aio.msg import Msg

from ttscommon.bus.faults import WRONG_LAST_SEQUENCE, Unreachable, code_of, reason
from ttscommon.bus.link import Link
from ttscommon.errors import BusUnavailable, Fenced, MalformedMessage
from ttscommon.messages import End, LogRecord, decode_record
from ttscommon.subjects import Log

DIRECT_BATCH: Final = 256
# The end of a batch, and no message found. Anything else, like 503 from a broker whose stream is
# not up yet, says nothing about what the stream holds.
_COMPLETE: Final = ("204", "404")

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Stored:
    """A record and its place in the stream."""

    sequence: int
    record: LogRecord
    message_id: str


class LogStore:
    """All access to the JetStream copy of the logs."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._client = link.client
        self._jetstream = link.jetstream
        self._timeout_s = link.settings.publish_timeout_s

    async def commit(
        self,
        log: Log,
        request_id: str,
        data: bytes,
        *,
        last: int,
        message_id: str,
        epoch: int | None = None,
    ) -> int:
        """Append, if the subject's last sequence is still `last`; retries until it is known.

        Returns the record's sequence. Raises Fenced if another writer got there first. A lost
        acknowledgement shows as a wrong last sequence, so the last message is compared by id.
        A full store may have dropped the last record: with the `epoch` of the log's owner that
        is no fence, and the record goes behind whatever an earlier epoch left.
        """
        headers = {
            "Nats-Msg-Id": message_id,
            "Nats-Expected-Last-Subject-Sequence": str(last),
        }
        subject = log.subject(request_id)
        delay_s = 0.02
        while True:
            try:
                ack = await self._jetstream.publish(
                    subject, data, timeout=self._timeout_s, stream=log.stream, headers=headers
                )
                return ack.seq
            except nats.js.errors.APIError as error:
                if code_of(error) == WRONG_LAST_SEQUENCE:
                    tail = await self.last(log, request_id)
                    if tail is not None and tail.message_id == message_id:
                        return tail.sequence
                    if epoch is None or not _owns(epoch, tail):
                        raise Fenced(f"{subject} has another writer") from error
                    log_.info("commit.tail_dropped", request_id=request_id, last=last)
                    last = tail.sequence if tail is not None else 0
                    headers["Nats-Expected-Last-Subject-Sequence"] = str(last)
            except Unreachable as error:
                log_.debug("commit.retry", request_id=request_id, error=reason(error))
            delay_s = min(delay_s * 2, 0.5)
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))

    async def last(self, log: Log, request_id: str, give_up_s: float = 30.0) -> Stored | None:
        """The last record, as the stream's leader has it; None if there is none.

        Direct reads may miss what was acknowledged just before, so they are not used here.
        """
        deadline = time.monotonic() + give_up_s
        while True:
            try:
                raw = await self._jetstream.get_last_msg(log.stream, log.subject(request_id))
                headers = raw.headers or {}
                record = decode_record(raw.data or b"")
                return Stored(raw.seq or 0, record, headers.get("Nats-Msg-Id", ""))
            except nats.js.errors.NotFoundError:
                return None
            except Unreachable as error:
                if time.monotonic() > deadline:
                    raise BusUnavailable("the log could not be read in time") from error
                await asyncio.sleep(random.uniform(0.02, 0.08))

    async def read(self, log: Log, request_id: str, after: int) -> list[Stored]:
        """Every record behind sequence `after`, by direct reads; may lag behind the leader.

        Raises one of `Unreachable` if the broker does not answer.
        """
        found: list[Stored] = []
        while True:
            batch = await self._read_batch(log, request_id, after)
            found.extend(batch)
            if len(batch) < DIRECT_BATCH:
                return found
            after = batch[-1].sequence

    async def tail(self, log: Log, request_id: str) -> Stored | None:
        """The last record as a direct read has it, which may lag; None if there is none.

        Raises one of `Unreachable` if the broker does not answer.
        """
        found = await self._records(log, request_id, {"multi_last": [log.subject(request_id)]})
        return found[-1] if found else None

    async def read_patiently(self, log: Log, request_id: str, after: int) -> list[Stored]:
        """`read`, again and again until the broker answers; bound it with a timeout."""
        while True:
            try:
                return await self.read(log, request_id, after)
            except Unreachable:
                await asyncio.sleep(random.uniform(0.02, 0.08))

    async def _read_batch(self, log: Log, request_id: str, after: int) -> list[Stored]:
        query = {"seq": after + 1, "next_by_subj": log.subject(request_id), "batch": DIRECT_BATCH}
        return await self._records(log, request_id, query)

    async def _records(self, log: Log, request_id: str, query: dict[str, Any]) -> list[Stored]:
        found: list[Stored] = []
        for headers, data in await self.direct_get(log.stream, query):
            try:
                record = decode_record(data)
            except MalformedMessage as error:
                log_.warning("log.malformed", request_id=request_id, error=error.message)
                continue
            sequence = int(headers["Nats-Sequence"])
            found.append(Stored(sequence, record, headers.get("Nats-Msg-Id", "")))
        return found

    async def direct_get(
        self, stream: str, query: dict[str, Any]
    ) -> list[tuple[dict[str, str], bytes]]:
        """Headers and data of every message a direct-get query finds on a stream.

        Raises one of `Unreachable` if the broker does not answer in time.
        """
        found: list[tuple[dict[str, str], bytes]] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def on_message(message: Msg) -> None:
            headers = message.headers or {}
            if "Nats-Sequence" in headers:
                found.append((headers, message.data))
            elif done.done():
                return
            elif headers.get("Status") in _COMPLETE:
                done.set_result(None)
            else:
                done.set_exception(nats.errors.Error(f"direct get: {headers}"))

        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, cb=on_message)
        try:
            subject = f"$JS.API.DIRECT.GET.{stream}"
            await self._client.publish(subject, json.dumps(query).encode(), reply=inbox)
            await asyncio.wait_for(done, self._timeout_s)
        finally:
            await self._link.unsubscribe(subscription)
        return found


def _owns(epoch: int, tail: Stored | None) -> bool:
    """Whether nobody of this epoch or a later one, and no End, stands in a log that was ours."""
    if tail is None:
        return True
    return tail.record.epoch < epoch and not isinstance(tail.record, End)
