"""The part of the requests' streams that no gateway needs any more. Pure: no clock, no network."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ttscommon.bus import TRIMMED, Extent
from ttscommon.wire.subjects import AUDIO


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


# A sequence of each stream, in the order of TRIMMED.
Sequences: TypeAlias = tuple[int, ...]

_NOTHING: Final[Sequences] = (0,) * len(TRIMMED)
# How late the end of a request may be noticed.
_LATE_S: Final = 60.0


class Needs:
    """One gateway's own requests.

    A request writes behind everything that its streams held before it was submitted, so what they
    held when they were last looked at is enough to know; no request is looked at for it.
    """

    def __init__(self) -> None:
        self.extents: dict[str, Extent] = {}
        self._newest: Sequences = _NOTHING
        self._oldest: Sequences = _NOTHING
        self._marks: dict[str, tuple[Sequences, bool]] = {}
        self._counts: Counter[tuple[Sequences, bool]] = Counter()
        self._unnamed: dict[tuple[Sequences, bool], float] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._marks

    def saw(self, extents: Mapping[str, Extent]) -> bool:
        """What the streams hold now. False if records were lost, and sequences given anew: then
        everything is needed that is there.
        """
        before, self.extents = self.extents, dict(extents)
        self._newest = tuple(extents[stream].last for stream in TRIMMED)
        self._oldest = tuple(extents[stream].first - 1 for stream in TRIMMED)
        follow = all(extents[stream].follows(extent) for stream, extent in before.items())
        if not follow:
            self._marks = {name: (_NOTHING, kept) for name, (_, kept) in self._marks.items()}
            self._counts = Counter(self._marks.values())
            self._unnamed = {(_NOTHING, kept): s for (_, kept), s in self._unnamed.items()}
        return follow

    def add(self, request_id: str, *, fresh: bool, resumable: bool) -> None:
        """A request is about to be submitted. One that is not `fresh` may have written before."""
        mark = self._newest if fresh else self._oldest
        known = self._marks.get(request_id)
        if known is not None:
            mark, resumable = _lowest((mark, known[0])), resumable or known[1]
            self.remove(request_id)
        self._marks[request_id] = (mark, resumable)
        self._counts[mark, resumable] += 1

    def remove(self, request_id: str) -> None:
        """No gateway needs it any more; safe to call twice."""
        key = self._marks.pop(request_id, None)
        if key is not None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def unname(self, request_id: str, until_s: float) -> None:
        """Forget which request it is, and need as much until then."""
        key = self._marks.get(request_id)
        if key is not None:
            self._unnamed[key] = max(until_s, self._unnamed.get(key, until_s))
            self.remove(request_id)

    def report(self, now: float, *, leaving: bool = False) -> dict[str, int]:
        """By stream: every later record is needed, or will be.

        leaving: there will be no other requests, and only clients that may come back elsewhere need
        something; empty if there are none.
        """
        self._unnamed = {key: s for key, s in self._unnamed.items() if s > now}
        needed = {*self._counts, *self._unnamed}
        marks = [mark for mark, resumable in needed if resumable or not leaving]
        if not leaving:
            marks.append(self._newest)
        return dict(zip(TRIMMED, _lowest(marks), strict=True)) if marks else {}


@dataclass(frozen=True)
class HorizonTuning:
    """Up to where records may go."""

    hold_s: float = AUDIO.age_s + _LATE_S
    """How long the last message of a gateway that may have died counts: longer than its requests
    are kept, and than a client may take to come back elsewhere.
    """
    settle_s: float = 15.0
    """How long a record must have been needed by no gateway: longer than a request takes from one
    gateway to another, with their messages.
    """
    deaf_s: float = 10.0
    """A gateway that heard nothing for so long may have missed another's last message."""

    @classmethod
    def keeping(cls, keep_s: float) -> HorizonTuning:
        """For gateways that keep the logs of every request for so long."""
        return cls(max(AUDIO.age_s, keep_s) + _LATE_S)


class Horizon:
    """What all gateways need, the own included, as they say it."""

    def __init__(self, tuning: HorizonTuning = HorizonTuning()) -> None:
        self._tuning = tuning
        self._words: dict[str, tuple[Sequences, float]] = {}
        self._looks: deque[tuple[float, Sequences]] = deque()
        self._heard_s = float("-inf")
        self._since_s = float("inf")

    def hear(self, gateway: str, needs: Mapping[str, int] | None, now: float) -> None:
        """A gateway's word: see Needs.report. One of an older version does not say: everything."""
        if now - self._heard_s > self._tuning.deaf_s:
            self._since_s = now
        self._heard_s = now
        if needs is not None and not needs:
            self._words.pop(gateway, None)
            return
        self._words[gateway] = (tuple((needs or {}).get(stream, 0) for stream in TRIMMED), now)

    def doubt(self, now: float) -> None:
        """Records were lost: what was said before means nothing."""
        self._since_s = now
        self._looks.clear()

    def look(self, now: float) -> dict[str, int]:
        """By stream, up to which sequence no gateway needs it; call it several times a `settle_s`.

        Nothing as long as there may be gateways whose last word was before this one's time.
        """
        hold_s, settle_s = self._tuning.hold_s, self._tuning.settle_s
        self._words = {name: word for name, word in self._words.items() if now - word[1] <= hold_s}
        if not self._words or now - self._heard_s > self._tuning.deaf_s:
            self._looks.clear()
            return {}
        self._looks.append((now, _lowest([mark for mark, _ in self._words.values()])))
        while len(self._looks) > 1 and self._looks[1][0] <= now - settle_s:
            self._looks.popleft()
        if now - self._since_s < hold_s or self._looks[0][0] > now - settle_s:
            return {}
        return dict(zip(TRIMMED, _lowest([mark for _, mark in self._looks]), strict=True))


def worth(extent: Extent, through: int, share: float) -> bool:
    """Whether enough of a stream would go; several gateways see the same."""
    gained, held = through + 1 - extent.first, extent.last + 1 - extent.first
    return gained > 0 and gained >= share * held


def _lowest(marks: Iterable[Sequences]) -> Sequences:
    return tuple(map(min, zip(*marks, strict=True)))
