"""Room of workers, from their step times and reports, and the expected ends of streams. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple, Protocol

from ttscommon.cluster.admission.loop import Streams
from ttscommon.wire.replicas import Replica

# The pairs of 16 points fix a line; those of the hundreds that a busy engine reports cost more
# than the request that is judged by them.
_MOST_POINTS: Final = 16


@dataclass(frozen=True)
class Line:
    """Seconds of a step: `base_s` + `stream_s` a stream, neither negative."""

    base_s: float
    stream_s: float

    def at(self, size: int) -> float:
        return self.base_s + self.stream_s * size

    @classmethod
    def through(cls, points: Mapping[int, float]) -> Line:
        """The line that half of the pairs of `points` are steeper than (Theil and Sen).

        Medians of a few steps each are noisy, and a search for the best of them finds the
        luckiest: one outlier must not move the whole. Raises ValueError without any point.
        """
        if not points:
            raise ValueError("a curve needs a measured point")
        return cls(*_fitted(tuple(points.items())))


# Every request is judged by the same few reports.
@lru_cache(1024)
def _fitted(measured: tuple[tuple[int, float], ...]) -> tuple[float, float]:
    """Base and slope of the line through the points; see Line.through."""
    points = dict(measured)
    sizes = _spread(sorted(points))
    slopes = [(points[b] - points[a]) / (b - a) for a, b in combinations(sizes, 2)]
    stream_s = max(0.0, median(slopes)) if slopes else 0.0
    return max(0.0, median(points[n] - stream_s * n for n in sizes)), stream_s


def _spread(sizes: Sequence[int]) -> list[int]:
    """At most `_MOST_POINTS` of `sizes`, the first and the last among them."""
    count = min(len(sizes), _MOST_POINTS)
    return [sizes[i * (len(sizes) - 1) // max(1, count - 1)] for i in range(count)]


def seconds_at(points: Mapping[int, float], size: int) -> float:
    """Seconds of a step of `size` streams, linear between the measured `points` and beyond them.

    Never less than the fastest point; raises ValueError without any point.
    """
    if not points:
        raise ValueError("a curve needs a measured point")
    sizes = sorted(points)
    if len(sizes) == 1 or size <= sizes[0]:
        return points[sizes[0]]
    upper = next((i for i, known in enumerate(sizes) if known >= size), len(sizes) - 1)
    low, high = sizes[upper - 1], sizes[upper]
    slope = (points[high] - points[low]) / (high - low)
    return max(min(points.values()), points[low] + slope * (size - low))


# This share of a KV cache takes a stream of unknown length.
_SPARE: Final = 0.25


@dataclass(frozen=True)
class View:
    """Live replicas of one model, and how many streams they hold by now."""

    talkers: tuple[Replica, ...]
    vocoders: tuple[Replica, ...]
    busy: int
    frame_rate_hz: float

    @property
    def stages(self) -> tuple[Sequence[Replica], Sequence[Replica]]:
        return self.talkers, self.vocoders


class Room(NamedTuple):
    """Streams that replicas have place for; see Streams."""

    least: int
    most: int
    expected: int


def room_of(view: View, utilisation: float) -> Room:
    """It follows from the view's replicas alone. `utilisation`: share of the engines' speed to plan
    with.
    """
    return Room(
        least=min(len(stage) for stage in view.stages),
        most=min(sum(min(r.slots, cached_streams(r)) for r in stage) for stage in view.stages),
        expected=min(expected(stage, view.frame_rate_hz, utilisation) for stage in view.stages),
    )


def streams_of(view: View, silent: int, slack_s: float | None, room: Room) -> Streams:
    """What a loop is to know."""
    return Streams(view.busy, silent, slack_s, *room)


def expected(stage: Iterable[Replica], frame_rate_hz: float, utilisation: float) -> int:
    """How many streams these workers believe that they keep up with, and have the caches for."""
    return sum(
        min(realtime_streams(one, frame_rate_hz, utilisation), cached_streams(one)) for one in stage
    )


def cached_streams(replica: Replica) -> int:
    """How many streams the replica's cache holds, each as long as those in it are on average: a
    talker's KV cache, or what a vocoder's streams carry where that grows.

    A stream more always fits while a quarter of the cache is free: few streams say little of the
    next, and streams give way to one another where the guess was wrong.
    """
    held, open_ = replica.kv_positions - replica.kv_free, replica.slots - replica.free
    if held <= 0 or open_ <= 0:
        return replica.slots
    more = replica.kv_free * open_ // held
    least = int(replica.kv_free >= _SPARE * replica.kv_positions)
    return min(replica.slots, open_ + max(more, least))


def realtime_streams(replica: Replica, frame_rate_hz: float, utilisation: float) -> int:
    """How many streams the replica's engine can keep up with, at most its slots.

    One that is too slow for a single stream takes one all the same, because it will never be
    faster. It takes none while other programs have what it needs, and none of a model that is still
    loading, whose rate is not known.
    """
    if not frame_rate_hz:
        return 0
    period_s = utilisation / frame_rate_hz
    streams = _kept_up(replica, period_s)
    if streams >= 1:
        return min(replica.slots, streams)
    return 0 if _kept_up(replica, period_s * replica.slowed) >= 1 else 1


def _kept_up(replica: Replica, period_s: float) -> int:
    """For how many streams a round takes no longer than `period_s`."""
    if replica.stage == "vocoder":
        round_ = Line(0.0, replica.frame_s)
    elif replica.step_s:
        round_ = Line.through(replica.step_s)
        if round_.at(replica.batch) < period_s:
            # More than a batch take turns, each at the cost of a full one.
            round_ = Line(0.0, round_.at(replica.batch) / replica.batch)
    else:
        return replica.slots
    if round_.stream_s <= 0.0:
        return replica.slots if round_.base_s <= period_s else 0
    return int((period_s - round_.base_s) / round_.stream_s)


# A stream is expected to go on for so much longer once it has taken as long as was expected.
_OVERDUE_S: Final = 1.0
# Those told to come back are expected for so long after their time.
_KEPT_S: Final = 1.0

# Multiples of it are spread evenly, whatever their number.
_GOLDEN: Final = 0.618


class Running(Protocol):
    """A stream, as far as its end is concerned."""

    @property
    def characters(self) -> int: ...
    @property
    def began_s(self) -> float: ...


@dataclass
class Ends:
    """How long a stream takes for each character of its text, learned from those that ended.

    A refused caller is told when the first stream will have ended for which no other was told to
    come back: all of them at once would find one place. Callers are told to stay away for most_s at
    most: those who would be for longer come spread over its second half.
    """

    weight: float = 0.2
    character_s: float = 0.06
    least_s: float = 0.5
    _learned: int = 0
    _promised: dict[str, deque[float]] = field(default_factory=dict)

    def learn(self, characters: int, held_s: float) -> None:
        """A stream of so many characters took so long."""
        if characters > 0:
            self._learned += 1
            weight = max(self.weight, 1 / self._learned)
            self.character_s += weight * (held_s / characters - self.character_s)

    def left_s(self, stream: Running, now: float) -> float:
        """For how long it is expected to go on."""
        expected_s = max(self.least_s, stream.characters * self.character_s)
        left_s = stream.began_s + expected_s - now
        return left_s if left_s > 0 else _OVERDUE_S

    def promise(
        self, kind: str, streams: Iterable[Running], now: float, most_s: float
    ) -> float | None:
        """Seconds after which one of `streams` has ended, for the next who asks for that `kind`.

        None without streams.
        """
        ends = sorted(self.left_s(stream, now) for stream in streams)
        if not ends:
            return None
        promised = self._promised.setdefault(kind, deque())
        while promised and promised[0] + _KEPT_S <= now:
            promised.popleft()
        rounds, place = divmod(len(promised), len(ends))
        wait_s = ends[place] + rounds * ends[-1]
        if wait_s > most_s:
            wait_s = most_s * (1.0 + len(promised) * _GOLDEN % 1.0) / 2.0
        promised.append(max(now + wait_s, promised[-1] if promised else 0.0))
        return wait_s
