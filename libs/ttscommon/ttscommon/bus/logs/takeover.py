"""A successor's search for where its predecessor came to, with or without a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from ttscommon.bus.faults import Unreachable
from ttscommon.bus.logs.credit import CREDIT_BYTES
from ttscommon.bus.logs.logstore import RequestLog, StoredRecord
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable, Fenced
from ttscommon.wire.messages import Checkpoint, Chunk, End, Position, Takeover


@dataclass(frozen=True)
class WriterTuning:
    """Writing a log: live at once, committed right behind."""

    window: int = 64
    """Records that may wait for their commit, some seconds of speech."""
    recent: int = 16
    """Committed records that a NACK still brings back without a read of the log."""
    positions: int = 8
    """Positions of audio that may wait for their commit: longer than an election."""
    position_s: float = 4.0
    """Sound between two positions."""
    tail_bytes: int = 1 << 20
    """Sound that a NACK brings back."""
    resend_bytes: int = 1 << 18
    """How much of it is sent at once."""
    credit_bytes: int = CREDIT_BYTES
    """What a reader takes that has granted nothing yet, see bus/logs/credit.py."""
    offer_s: float = 0.15
    """How long readers may take to offer what they heard; a live one answers within milliseconds.
    """
    ask_s: float = 0.2
    """Between two questions while no reader of audio answers."""
    listener_s: float = 5.0
    """Between two questions while a reader takes nothing."""
    leader_s: float = 0.15
    """How long a log's leader may take before its followers are asked instead."""
    restore_s: float = 30.0
    """How long reading a log may take."""
    again_s: float = 0.02
    """Between two attempts to read it."""
    close_s: float = 30.0
    """How long the last records may take: longer than an election."""


DEFAULT_TUNING: Final = WriterTuning()
T = TypeVar("T")


@dataclass(frozen=True)
class Predecessor:
    """A log's end. `certain`: its leader said so; else followers did, which may lag behind.

    `own`: the last record is this very epoch's. `end`: the End, if it has one.
    """

    sequence: int = 0
    position: int = 0
    epoch: int = 0
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    end: End | None = None
    own: bool = False
    certain: bool = False
    restored: list[Chunk] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.end is not None

    @classmethod
    def of(cls, tail: StoredRecord | None, epoch: int) -> Predecessor:
        """From the last record; raises Fenced if a later epoch than `epoch` wrote it."""
        if tail is None:
            return cls()
        record = tail.record
        end = record if isinstance(record, End) else None
        if record.epoch > epoch and end is None:
            raise Fenced(f"epoch {record.epoch} owns the log", owner=record.epoch)
        known = record.checkpoint if isinstance(record, Position | Takeover) else Checkpoint()
        own = record.epoch == epoch
        return cls(tail.sequence, record.end, record.epoch, known, end, own)


async def find_predecessor(
    log: RequestLog, epoch: int, tuning: WriterTuning, *, restore: bool
) -> Predecessor:
    """Where to go on; with `restore` also everything before, as far as the store still has it.

    Raises Fenced if a later epoch owns the log, BusUnavailable if no replica of it answers.
    """
    followers = asyncio.create_task(_tail_of_followers(log, tuning))
    try:
        tail = await log.last(tuning.leader_s)
        found = replace(Predecessor.of(tail, epoch), certain=True)
    except BusUnavailable:
        found = Predecessor.of(await followers, epoch)
    finally:
        await stop(followers)
    if not restore or found.ended:
        return found
    return replace(found, restored=await _restored(log, found.position, tuning))


async def _tail_of_followers(log: RequestLog, tuning: WriterTuning) -> StoredRecord | None:
    try:
        async with asyncio.timeout(tuning.restore_s):
            return await _answered(log.tail, tuning)
    except TimeoutError:
        raise BusUnavailable("no replica of the log answers") from None


async def _restored(log: RequestLog, position: int, tuning: WriterTuning) -> list[Chunk]:
    """Everything before `position` that the store still has.

    Direct reads may lag, so read until nothing is missing at the end.
    """
    timeline: Timeline | None = None
    seen = 0
    chunks: list[Chunk] = []
    try:
        async with asyncio.timeout(tuning.restore_s):
            while timeline is None or timeline.next < position:
                for stored in await _answered(partial(log.read, seen), tuning):
                    if timeline is None:  # a full store drops beginnings
                        timeline = Timeline(stored.record.start)
                    seen = stored.sequence
                    ready = timeline.feed_log(stored.record)
                    chunks.extend(r for r in ready if not isinstance(r, End))
                if not position:
                    break
                if timeline is None or timeline.next < position:
                    await asyncio.sleep(tuning.again_s)
    except TimeoutError:
        raise BusUnavailable("the log could not be read in time") from None
    return [chunk for chunk in chunks if chunk.start < position]


async def _answered(ask: Callable[[], Awaitable[T]], tuning: WriterTuning) -> T:
    """Ask again and again until a replica answers."""
    while True:
        try:
            return await ask()
        except Unreachable:
            await asyncio.sleep(tuning.again_s)
