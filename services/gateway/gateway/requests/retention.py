"""Removes what ended requests leave at the broker, as soon as nobody can need it any more.

The streams' own ages, an hour for codes, are only for what no gateway removes: at 500 requests a
second they would hold 1.8 million subjects. A gateway that dies leaves its requests to them.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from dataclasses import dataclass, field, replace

import structlog

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.errors import BusUnavailable
from ttscommon.subjects import AUDIO, CODES, TEXT, Log

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RetentionTuning:
    """Seconds, unless they are counts. `resumable_s`: how long a lost client may come back.
    `sweep_s`: between two looks for what is due. `again_s`: until a request is looked at again that
    a worker still holds. `batch`: requests that are looked up at once. `share`: the part of the
    time in which a purge may be under way: with many records in a stream one costs the broker
    milliseconds. `most`: requests that are remembered; beyond, and for what is due for `late_s`,
    the streams' ages have to do.
    """

    resumable_s: float = AUDIO.age_s
    sweep_s: float = 1.0
    again_s: float = 30.0
    batch: int = 32
    share: float = 0.05
    most: int = 1_000_000
    late_s: float = CODES.age_s


@dataclass(order=True, frozen=True)
class _Leftover:
    due_s: float
    request_id: str = field(compare=False)
    logs: tuple[Log, ...] = field(compare=False)
    cancelled: bool = field(compare=False)


class Retention:
    """One gateway's, for the requests that it heard the last of. `run` while it serves."""

    def __init__(
        self, bus: Bus, keep_s: float, tuning: RetentionTuning = RetentionTuning()
    ) -> None:
        """`keep_s`: how long the logs of a request stay that nobody can resume. Longer than its
        workers take to commit its End and to acknowledge their jobs.
        """
        self._bus = bus
        self._keep_s = keep_s
        self._tuning = tuning
        self._waiting: list[_Leftover] = []
        # By request: the others in the heap are out of date.
        self._current: dict[str, _Leftover] = {}

    def __len__(self) -> int:
        return len(self._current)

    def left(self, request_id: str, resumable: bool, text: bool, cancelled: bool) -> None:
        """The request is over for this gateway, or was left to a client that may come back.

        `text`: some of it came later; `cancelled`: there may be a tombstone.
        """
        logs = [CODES]
        if text:
            logs.append(TEXT)
        if not resumable:  # else it goes with its stream's age
            logs.append(AUDIO)
        wait_s = self._tuning.resumable_s if resumable else self._keep_s
        self._put(_Leftover(time.monotonic() + wait_s, request_id, tuple(logs), cancelled))

    def forget(self, request_id: str) -> None:
        """Somebody hears the request again, here or elsewhere: its logs are needed."""
        self._current.pop(request_id, None)

    async def run(self) -> None:
        """Remove what is due, for ever."""
        while True:
            await asyncio.sleep(self._tuning.sweep_s)
            try:
                while due := self._due():
                    await self._remove(due)
            except BusUnavailable as error:
                log_.debug("retention.retry", error=error.message)

    def _put(self, leftover: _Leftover) -> None:
        if len(self._waiting) < self._tuning.most:
            self._current[leftover.request_id] = leftover
            heapq.heappush(self._waiting, leftover)

    def _due(self) -> list[_Leftover]:
        now, due = time.monotonic(), list[_Leftover]()
        while self._waiting and self._waiting[0].due_s <= now and len(due) < self._tuning.batch:
            leftover = heapq.heappop(self._waiting)
            if now - leftover.due_s > self._tuning.late_s:
                self._done(leftover)
            elif self._current.get(leftover.request_id) is leftover:
                due.append(leftover)
        return due

    async def _remove(self, due: list[_Leftover]) -> None:
        """Remove what no worker needs; the rest, and what the broker did not remove, comes again.

        Raises BusUnavailable.
        """
        again = {each.request_id: each for each in due}
        try:
            held = await self._bus.queue.held(list(again))
            for each in due:
                if each.request_id not in held:
                    await self._purge_gently(each)
                    del again[each.request_id]
        finally:
            later_s = time.monotonic() + self._tuning.again_s
            for each in again.values():
                if self._done(each):
                    self._put(replace(each, due_s=later_s))

    def _done(self, leftover: _Leftover) -> bool:
        """False if it was forgotten, or is another's by now."""
        current = self._current.get(leftover.request_id) is leftover
        if current:
            del self._current[leftover.request_id]
        return current

    async def _purge_gently(self, leftover: _Leftover) -> None:
        """Remove it, unless somebody hears it again, and rest by what that took the broker."""
        if self._current.get(leftover.request_id) is not leftover:
            return
        began_s = time.monotonic()
        await self._purge(leftover)
        self._done(leftover)
        took_s = time.monotonic() - began_s
        await asyncio.sleep(took_s * (1.0 / self._tuning.share - 1.0))

    async def _purge(self, leftover: _Leftover) -> None:
        for log in leftover.logs:
            await self._bus.logs.purge(log, leftover.request_id)
        if leftover.cancelled:
            await self._bus.kv.purge(subjects.TOMBSTONES, leftover.request_id)
