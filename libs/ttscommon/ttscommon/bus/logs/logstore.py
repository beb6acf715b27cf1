"""One log of one request: where it is, and reads and fenced commits of its copy in JetStream."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import nats.js.errors
import structlog

from ttscommon.bus.faults import (
    WRONG_LAST_SEQUENCE,
    Unreachable,
    available,
    code_of,
    is_permanent,
    reason,
)
from ttscommon.bus.link import Link
from ttscommon.bus.streams import DIRECT_BATCH, EXPECTED, append, direct_get
from ttscommon.wire.errors import BusUnavailable, Fenced, LogUnwritable, MalformedMessage
from ttscommon.wire.messages import End, LogRecord, decode_record
from ttscommon.wire.subjects import Log

_MOST_PROBES: Final = 24
_MESSAGE_ID: Final = "Nats-Msg-Id"
_TENANT: Final = "Antiphon-Tenant"

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StoreTuning:
    """Reading and committing records."""

    commit_s: float = 45.0
    """How long a commit may fail: longer than an election (9 s) and than a gateway waits for audio
    (30 s).
    """
    stalled_s: float = 10.0
    """When a failing commit is worth a warning."""
    first_pause_s: float = 0.02
    """Between two attempts at a commit, doubled each time."""
    longest_pause_s: float = 0.5
    """The longest such pause."""
    read_pause_s: float = 0.05
    """Between two attempts at a read."""
    stale_s: float = 2.0
    """How long a leader that hung and woke may refuse what is right before it learns that it leads
    no more.
    """


@dataclass(frozen=True)
class StoredRecord:
    """A record, its place in the stream, and whose request it belongs to."""

    sequence: int
    record: LogRecord
    message_id: str
    tenant: str = ""

    @classmethod
    def of(cls, sequence: int, data: bytes, headers: Mapping[str, str]) -> StoredRecord:
        """Raises MalformedMessage."""
        message_id, tenant = headers.get(_MESSAGE_ID, ""), headers.get(_TENANT, "")
        return cls(sequence, decode_record(data), message_id, tenant)


class RequestLog:
    """One log of one request: its subjects, and all access to its copy in JetStream.

    subject: where its records are stored. live: where they go live. nack: where its writer is asked
    for what is missing.
    """

    def __init__(self, link: Link, kind: Log, request_id: str) -> None:
        self.link = link
        self.kind = kind
        self.request_id = request_id
        self.subject = kind.subject(request_id)
        self.live = kind.live(request_id)
        self.nack = kind.nack(request_id)
        self._stream = link.name(kind.stream)
        self._subject = link.subject(self.subject)
        self._tuning = StoreTuning()

    async def commit(
        self,
        data: bytes,
        *,
        last: int,
        message_id: str,
        epoch: int | None = None,
        tenant: str = "",
    ) -> int:
        """Append, if the subject's last sequence is still `last`; retries until it is known.

        Returns the record's sequence. A lost acknowledgement shows as a wrong last sequence, so the
        last message is compared by id. A full store may have dropped the last record: with the
        `epoch` of the log's owner that is no fence, and the record goes behind whatever an earlier
        epoch left.

        Raises Fenced if another writer got there first, LogUnwritable if the broker refuses the
        record for good, BusUnavailable if it did not take it for `commit_s`.
        """
        trying = _Trying(self._tuning, self)
        while True:
            try:
                return await self._append(data, last, message_id, tenant)
            except nats.js.errors.APIError as error:
                if code_of(error) == WRONG_LAST_SEQUENCE:
                    tail = await self.last()
                    if tail is not None and tail.message_id == message_id:
                        return tail.sequence
                    owned = epoch is not None and _owns(epoch, tail)
                    if epoch is not None and not owned and self._is_stale(tail, last, trying):
                        trying.failed(error)
                        await trying.pause()
                        continue
                    if not owned:
                        owner = tail.record.epoch if tail is not None else 0
                        message = f"{self.subject} has another writer"
                        raise Fenced(message, owner=owner) from error
                    log_.info("commit.tail_dropped", request_id=self.request_id, last=last)
                    last = tail.sequence if tail is not None else 0
                elif is_permanent(error):
                    message = f"{self.kind.stream} refuses the record: {error}"
                    raise LogUnwritable(message) from error
                else:
                    trying.failed(error)
            except Unreachable as error:
                trying.failed(error)
            await trying.pause()

    async def last(self, give_up_s: float = 30.0) -> StoredRecord | None:
        """The last record, as the stream's leader has it; None if there is none.

        Direct reads may miss what was acknowledged just before, so they are not used here. Raises
        BusUnavailable if no leader answers for `give_up_s`.
        """
        deadline = time.monotonic() + give_up_s
        while True:
            try:
                raw = await self._last(max(0.0, deadline - time.monotonic()))
                return StoredRecord.of(raw.seq or 0, raw.data or b"", raw.headers or {})
            except nats.js.errors.NotFoundError:
                return None
            except Unreachable as error:
                if time.monotonic() > deadline:
                    raise BusUnavailable("the log could not be read in time") from error
                await asyncio.sleep(self._read_pause_s())

    async def first(self) -> StoredRecord | None:
        """The first record that the store still has, by a direct read; None if there is none.

        Raises one of `Unreachable` if the broker does not answer.
        """
        query = {"seq": 1, "next_by_subj": self._subject, "batch": 1}
        found = await self._records(query)
        return found[0] if found else None

    async def read(self, after: int) -> list[StoredRecord]:
        """Every record behind sequence `after`, by direct reads; may lag behind the leader.

        Raises one of `Unreachable` if the broker does not answer.
        """
        found: list[StoredRecord] = []
        while True:
            batch = await self.page(after)
            found.extend(batch)
            if len(batch) < DIRECT_BATCH:
                return found
            after = batch[-1].sequence

    async def page(self, after: int, batch: int = DIRECT_BATCH) -> list[StoredRecord]:
        """At most `batch` records behind sequence `after`; see `read`."""
        query = {"seq": after + 1, "next_by_subj": self._subject, "batch": batch}
        return await self._records(query)

    async def tail(self) -> StoredRecord | None:
        """The last record as a direct read has it, which may lag; None if there is none.

        Raises one of `Unreachable` if the broker does not answer.
        """
        found = await self._records({"multi_last": [self._subject]})
        return found[-1] if found else None

    async def behind(self, position: int, last: int) -> int:
        """A sequence behind which the log holds `position`, and not much before it.

        `last` is the log's last sequence. A bisection: records of all requests share the sequences.
        Raises one of `Unreachable` if the broker does not answer.
        """
        low, high = 0, last
        for _ in range(_MOST_PROBES):
            middle = (low + high) // 2
            if middle <= low:
                break
            found = await self.page(middle, batch=1)
            if not found or found[0].record.start > position:
                high = middle
            else:
                low = found[0].sequence - 1
        return low

    async def purge(self) -> None:
        """Remove the request's log; no writer may write it any more. Raises BusUnavailable."""
        with available(f"could not purge {self._subject}"):
            await self.link.jetstream.purge_stream(self._stream, subject=self._subject)

    async def _append(self, data: bytes, last: int, message_id: str, tenant: str) -> int:
        headers = {_MESSAGE_ID: message_id, EXPECTED: str(last)}
        if tenant:
            headers[_TENANT] = tenant
        limit_s = self.link.settings.publish_timeout_s
        return await append(self.link, self._stream, self._subject, data, headers, limit_s)

    def _is_stale(self, tail: StoredRecord | None, last: int, trying: _Trying) -> bool:
        """Whether a leader of the past refused: nothing stands behind what was to be followed."""
        behind = tail is None or tail.sequence > last
        return not behind and trying.failing_s < self._tuning.stale_s

    async def _last(self, limit_s: float) -> Any:
        async with asyncio.timeout(max(limit_s, self._tuning.read_pause_s)):
            return await self.link.jetstream.get_last_msg(self._stream, self._subject)

    async def _records(self, query: dict[str, Any]) -> list[StoredRecord]:
        found: list[StoredRecord] = []
        limit_s = self.link.settings.publish_timeout_s
        for headers, data in await direct_get(self.link, self._stream, query, limit_s):
            try:
                found.append(StoredRecord.of(int(headers["Nats-Sequence"]), data, headers))
            except MalformedMessage as error:
                log_.warning("log.malformed", request_id=self.request_id, error=error.message)
        return found

    def _read_pause_s(self) -> float:
        return self._tuning.read_pause_s * random.uniform(0.5, 1.5)


class _Trying:
    """The attempts at one commit: how long they fail, and how long to wait for the next."""

    def __init__(self, tuning: StoreTuning, log: RequestLog) -> None:
        self._tuning = tuning
        self._log = log
        self._pause_s = tuning.first_pause_s
        self._since_s: float | None = None
        self._warned = False

    @property
    def failing_s(self) -> float:
        """Since the first failure."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def failed(self, error: BaseException) -> None:
        """Raises BusUnavailable when it has failed for too long."""
        now = time.monotonic()
        self._since_s = now if self._since_s is None else self._since_s
        failing_s = now - self._since_s
        if failing_s > self._tuning.commit_s:
            raise BusUnavailable("the log could not be committed in time") from error
        if failing_s > self._tuning.stalled_s and not self._warned:
            self._warned = True
            log_.warning(
                "commit.stalled",
                stream=self._log.kind.stream,
                request_id=self._log.request_id,
                error=reason(error),
            )

    async def pause(self) -> None:
        self._pause_s = min(self._pause_s * 2, self._tuning.longest_pause_s)
        await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))


def _owns(epoch: int, tail: StoredRecord | None) -> bool:
    """Whether no writer of this epoch or a later one, and no End, stands in a log that was ours."""
    if tail is None:
        return True
    return tail.record.epoch < epoch and not isinstance(tail.record, End)
