"""Progress of a job's holder: the last record of its log names its writer."""

from __future__ import annotations

from ttscommon.bus import Bus
from ttscommon.bus.faults import Unreachable
from ttscommon.wire.messages import Takeover
from ttscommon.wire.subjects import Log


async def grew(bus: Bus, log: Log, request_id: str, epoch: int) -> bool | None:
    """Whether the log grew since `epoch` took it over; None if no replica of it answers.

    By a direct read, which may lag by a moment.
    """
    try:
        tail = await bus.logs.tail(log, request_id)
    except Unreachable:
        return None
    if tail is None or tail.record.epoch < epoch:
        return False
    return tail.record.epoch > epoch or not isinstance(tail.record, Takeover)
