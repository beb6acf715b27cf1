"""Retention of what ended requests leave at the broker: removed as soon as it is not needed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from gateway.requests.horizon import EndedRequests, Horizon, HorizonTuning, Leftover, Needs, worth
from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import AUDIO, CODES, LOGS, TEXT, TOMBSTONES

log_ = structlog.get_logger(__name__)

_BY_STREAM = {log.stream: log for log in LOGS}


@dataclass(frozen=True)
class RetentionTuning:
    """Removing what ended requests left."""

    resumable_s: float = AUDIO.age_s
    """How long a lost client may come back."""
    sweep_s: float = 1.0
    """Between two looks for what is due."""
    again_s: float = 30.0
    """Until a request that a worker still holds is looked at again."""
    batch: int = 32
    """Requests that are looked up at once."""
    extents_s: float = 5.0
    """Between two looks at the streams."""
    worth: float = 1 / 16
    """What may go, goes if it is at least this part of what is there."""
    timeout_s: float = 120.0
    """How long an ended request waits for that, until it is removed by itself."""
    share: float = 0.05
    """The part of the time in which such a removal may be under way: with many records in a stream
    one costs the broker milliseconds.
    """
    most: int = 1_000_000
    """Requests that are remembered; beyond, the streams' ages have to do."""
    late_s: float = CODES.age_s
    """Requests that ended so long ago are left to the streams' ages too."""


class Retention:
    """Removes what requests left that this gateway heard the last of. `run` while it serves."""

    def __init__(
        self,
        bus: Bus,
        keep_s: float,
        tuning: RetentionTuning = RetentionTuning(),
        horizon: HorizonTuning | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keep_s`: how long the logs of a request stay that no client can resume. Longer than its
        workers take to commit its End and to acknowledge their jobs.
        """
        self._bus = bus
        self._keep_s = keep_s
        self._tuning = tuning
        self._clock = clock
        self._horizon = Horizon(horizon or HorizonTuning.keeping(keep_s))
        self._needs = Needs()
        self._active: Counter[str] = Counter()
        self._leftovers = EndedRequests()

    def __len__(self) -> int:
        """Requests that are over, and may have left something."""
        return len(self._leftovers)

    def begin(self, request_id: str, *, fresh: bool, resumable: bool) -> None:
        """A request is about to be heard here. `fresh`: nothing was written for it so far."""
        self._active[request_id] += 1
        self._leftovers.forget(request_id)
        self._needs.add(request_id, fresh=fresh, resumable=resumable)

    def left(self, request_id: str, resumable: bool, text: bool, cancelled: bool) -> None:
        """The request is over for this gateway, or was left to a client that may come back.

        `text`: some of it came later; `cancelled`: there may be a tombstone.
        """
        if self._detach(request_id):
            return
        streams = [CODES.stream]
        if text:
            streams.append(TEXT.stream)
        if not resumable:  # else it goes with its stream's age
            streams.append(AUDIO.stream)
        if cancelled:
            streams.append(TOMBSTONES)
        if request_id not in self._needs:
            self._needs.add(request_id, fresh=False, resumable=resumable)
        wait_s = self._tuning.resumable_s if resumable else self._keep_s
        self._put(Leftover(self._clock() + wait_s, request_id, tuple(streams)))

    def handed_on(self, request_id: str) -> None:
        """The request is not heard over this connection any more, but over another."""
        if not self._detach(request_id):
            self.forget(request_id)

    def forget(self, request_id: str) -> None:
        """The request has a listener again, here or elsewhere, whose gateway sees to its logs."""
        self._leftovers.forget(request_id)
        if not self._active[request_id]:
            del self._active[request_id]
            self._needs.remove(request_id)

    def report(self, *, leaving: bool = False) -> dict[str, int]:
        """What the other gateways are to know; see Needs.report."""
        return self._needs.report(self._clock(), leaving=leaving)

    def hear(self, gateway: str, needs: Mapping[str, int] | None) -> None:
        """What a gateway says, this one included."""
        self._horizon.hear(gateway, needs, self._clock())

    async def run(self) -> None:
        """Remove what is not needed, until cancelled."""
        extents_s, sweep_s = self._tuning.extents_s, self._tuning.sweep_s
        await asyncio.gather(
            _forever(self._trim, lambda: extents_s * random.uniform(0.8, 1.2)),
            _forever(self._end_due, lambda: sweep_s),
            _forever(self._remove_overdue, lambda: sweep_s),
        )

    async def _trim(self) -> None:
        """Remove what lies before everything that is needed. Raises BusUnavailable."""
        extents = await self._bus.trimmer.extents()
        now = self._clock()
        if not self._needs.saw(extents):
            log_.warning("retention.records_lost")
            self._horizon.doubt(now)
        self._leftovers.saw(extents)
        for stream, free in self._horizon.look(now).items():
            through = min(free, extents[stream].last)
            if worth(extents[stream], through, self._tuning.worth):
                await self._bus.trimmer.trim(stream, through)
                log_.debug("retention.trimmed", stream=stream, through=through)

    async def _end_due(self) -> None:
        """Raises BusUnavailable."""
        while due := self._leftovers.due(self._clock(), self._tuning.batch):
            await self._end(due)

    async def _end(self, due: list[Leftover]) -> None:
        """What no worker needs is over; the rest, and what is not known, comes again.

        Raises BusUnavailable.
        """
        again = {each.request_id: each for each in due}
        try:
            held = await self._bus.queue.held(list(again))
            for each in due:
                if each.request_id not in held:
                    del again[each.request_id]
                    self._over(each)
        finally:
            later_s = self._clock() + self._tuning.again_s
            for each in again.values():
                if each in self._leftovers:
                    self._put(replace(each, due_s=later_s))

    def _over(self, leftover: Leftover) -> None:
        if leftover in self._leftovers:
            self._leftovers.end(leftover, self._clock())
            self._needs.remove(leftover.request_id)

    async def _remove_overdue(self) -> None:
        """Remove what ended long ago and is still there. Raises BusUnavailable."""
        tuning = self._tuning
        while ended := self._leftovers.overdue(self._clock() - tuning.timeout_s):
            since_s, leftover = ended
            began_s = time.monotonic()
            if self._clock() - since_s < tuning.late_s:
                await self._remove(leftover)
            self._leftovers.drop(leftover)
            took_s = time.monotonic() - began_s
            await asyncio.sleep(took_s * (1.0 / tuning.share - 1.0))

    async def _remove(self, leftover: Leftover) -> None:
        request_id = leftover.request_id
        for stream in leftover.left(self._needs.extents):
            if stream == TOMBSTONES:
                await self._bus.kv.purge(TOMBSTONES, request_id)
            else:
                await self._bus.log(_BY_STREAM[stream], request_id).purge()

    def _put(self, leftover: Leftover) -> None:
        if len(self._leftovers) < self._tuning.most:
            self._leftovers.put(leftover)
        else:
            self._needs.unname(leftover.request_id, leftover.due_s + self._tuning.again_s)

    def _detach(self, request_id: str) -> bool:
        """One connection less hears it; returns whether another one here does."""
        self._active[request_id] -= 1
        if self._active[request_id] > 0:
            return True
        del self._active[request_id]
        return False


async def _forever(duty: Callable[[], Awaitable[None]], pause_s: Callable[[], float]) -> None:
    while True:
        try:
            await duty()
        except BusUnavailable as error:
            log_.debug("retention.retry", duty=duty.__name__, error=error.message)
        await asyncio.sleep(pause_s())
