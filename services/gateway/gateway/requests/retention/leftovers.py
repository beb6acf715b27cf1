"""Records of ended requests at the broker, in the order in which they may go. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ttscommon.bus import Extent


@dataclass(order=True)
class Leftover:
    """A request's records in `streams`; no gateway needs them from `due_s` on, unless it has a job.

    last: by stream, a sequence behind which it wrote little or nothing; None until that is known.
    """

    due_s: float
    request_id: str = field(compare=False)
    streams: tuple[str, ...] = field(compare=False)
    last: Mapping[str, int] | None = field(compare=False, default=None)

    def left(self, extents: Mapping[str, Extent]) -> list[str]:
        """The streams that may still hold something of it."""
        last = self.last
        return [one for one in self.streams if last is None or extents[one].first <= last[one]]


class EndedRequests:
    """One gateway's: first they wait until they are due, then until they have gone."""

    def __init__(self) -> None:
        self._unseen: list[Leftover] = []
        self._waiting: list[Leftover] = []
        self._ended: deque[tuple[float, Leftover]] = deque()
        # By request: the others in the heap and the queues are out of date.
        self._current: dict[str, Leftover] = {}

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, leftover: Leftover) -> bool:
        return self._current.get(leftover.request_id) is leftover

    def put(self, leftover: Leftover) -> None:
        self._current[leftover.request_id] = leftover
        heapq.heappush(self._waiting, leftover)
        if leftover.last is None:
            self._unseen.append(leftover)

    def forget(self, request_id: str) -> None:
        self._current.pop(request_id, None)

    def due(self, now: float, most: int) -> list[Leftover]:
        """Take at most so many that are due."""
        due = list[Leftover]()
        while self._waiting and self._waiting[0].due_s <= now and len(due) < most:
            leftover = heapq.heappop(self._waiting)
            if leftover in self:
                due.append(leftover)
        return due

    def end(self, leftover: Leftover, now: float) -> None:
        """No gateway needs it any more."""
        self._ended.append((now, leftover))

    def saw(self, extents: Mapping[str, Extent]) -> None:
        """What the streams hold now: drop what has gone."""
        last = {stream: extent.last for stream, extent in extents.items()}
        for leftover in self._unseen:
            leftover.last = last
        self._unseen.clear()
        while self._ended:
            leftover = self._ended[0][1]
            if leftover in self and leftover.left(extents):
                return
            self._ended.popleft()
            self.drop(leftover)

    def overdue(self, before_s: float) -> tuple[float, Leftover] | None:
        """What ended first, and when, if that was before then and it was not dropped."""
        while self._ended and self._ended[0][1] not in self:
            self._ended.popleft()
        if not self._ended or self._ended[0][0] > before_s:
            return None
        return self._ended[0]

    def drop(self, leftover: Leftover) -> None:
        """It is gone, unless the request was heard again meanwhile."""
        if leftover in self:
            self.forget(leftover.request_id)
