"""The order in which streams step: playback time is the only deadline (VoxServe, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeVar

from talker.engine.stream import Stream
from ttscommon.engine.slots import OfflineShare, Slots
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS

Planned = Callable[[Iterable[Stream]], list[Stream]]


class Candidate(Protocol):
    """A stream that could step. `slack_s` is the playback its listener has left.

    `startup` streams have sent nothing yet. `waited_s`: how long it could have stepped and was
    not chosen. `positions`: what the step would compute for it. `whole`: the step is a piece of
    work by itself, which shares a launch with few others or none. `bulk`: what is to be computed in
    this step and later ones of a segment's prompt, or of one that takes several steps; 0 behind it.
    """

    @property
    def key(self) -> str: ...
    @property
    def startup(self) -> bool: ...
    @property
    def slack_s(self) -> float: ...
    @property
    def positions(self) -> int: ...
    @property
    def whole(self) -> bool: ...
    @property
    def bulk(self) -> int: ...
    @property
    def arrived_s(self) -> float: ...
    @property
    def waited_s(self) -> float: ...
    @property
    def priority(self) -> int: ...


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True)
class StepLimits:
    """What one step may hold, and who may share it.

    Streams under `dry_slack_s` whose step is a piece of work by itself go before a first sound,
    since it would not find room beside them. Streams under `urgent_slack_s` must step now; those
    over `relaxed_slack_s` step aside for them. A stream that waited `starved_s` goes before all
    others.

    Where there are `company` listeners, streams with `together_slack_s` or more wait for one
    another on a processor, and are made `together_pace` times as fast as they are played: a step of
    six takes half as long as six of one. `together` of them share one, which a newcomer may have to
    wait for. 0: none waits. Streams with `yielding_slack_s` or more leave the processor to the
    other stage for `yield_s` after a listener's first codes, where few listen: its first sound is
    made of them.
    """

    streams: int = 32
    positions: int = 512
    startup_share: float = 0.5
    dry_slack_s: float = 0.15
    urgent_slack_s: float = 0.5
    relaxed_slack_s: float = 8.0
    starved_s: float = 0.5
    company: int = 0
    together_slack_s: float = 1.0
    together: int = 6
    together_pace: float = 3.0
    yielding_slack_s: float = 0.2
    yield_s: float = 0.01

    def __post_init__(self) -> None:
        if self.streams < 1 or self.positions < 1:
            raise ValueError("a step has room for something")
        if not 0.0 < self.startup_share <= 1.0:
            raise ValueError("startup_share is in (0, 1]")
        if not self.dry_slack_s <= self.urgent_slack_s <= self.relaxed_slack_s:
            raise ValueError("an urgent stream is not well supplied")
        if self.starved_s <= 0.0:
            raise ValueError("starved_s is positive")

    def rounds(self, streams: int, most: int) -> int:
        """Rounds of a launch of so many streams: `most` for up to half of `together`, and fewer for
        more, so that none is longer than that; a newcomer may have to wait for it.
        """
        return max(1, min(most, self.together * most // max(1, 2 * streams)))


class Policy(Protocol):
    """Chooses the streams of a step, the most urgent first."""

    def __call__(self, candidates: Sequence[C], limits: StepLimits) -> list[C]: ...


def online(candidates: Sequence[C], limits: StepLimits) -> list[C]:
    """Startup first within a bounded share, then least slack; the well-supplied step aside.

    Of those that start, one that has read its segment comes before one that has to, and a short
    segment before a long one. Prompts that take several steps are computed while no listener is in
    need: of each another part, once in `starved_s` at the least.
    """
    starved = [c for c in candidates if c.waited_s >= limits.starved_s]
    long = [c for c in candidates if _is_long(c)]
    starting = [c for c in candidates if c.startup and not _is_long(c)]
    for group in (long, starting):
        group.sort(key=lambda c: (-c.priority, c.bulk, c.arrived_s))
    steady = _steady(candidates, limits, startup=bool(starting))
    if any(c.slack_s < limits.urgent_slack_s for c in steady):
        long = []
    starved.sort(key=lambda c: (-c.waited_s, c.arrived_s))
    share = limits.streams
    if steady:
        share = max(1, math.floor(limits.streams * limits.startup_share))
    dry = [c for c in steady if c.whole and c.slack_s < limits.dry_slack_s]
    order = [*starved, *dry, *starting[:share], *steady, *long, *starting[share:]]
    return _fill(order, limits)


def _is_long(candidate: Candidate) -> bool:
    """Whether it starts with a part of a prompt, behind which there is no frame yet."""
    return candidate.startup and candidate.bulk > 0 and not candidate.whole


def _steady(candidates: Sequence[C], limits: StepLimits, *, startup: bool) -> list[C]:
    """Streams past their startup that step now, least slack first.

    Beside a startup only the urgent ones: every other would make the first sound later, and can
    wait for the two or three short steps that a startup takes. Without a startup the batch is
    filled: full steps are the most efficient, and the slack they build up outlasts a burst.
    """
    steady = [c for c in candidates if not c.startup]
    steady.sort(key=lambda c: (c.slack_s, c.arrived_s))
    urgent = sum(c.slack_s < limits.urgent_slack_s for c in steady)
    if startup:
        return steady[:urgent]
    if urgent:
        steady = [c for c in steady if c.slack_s < limits.relaxed_slack_s]
    return steady


def offline(candidates: Sequence[C], limits: StepLimits) -> list[C]:
    """The fullest batch, in order of arrival: throughput is all that counts."""
    return _fill(sorted(candidates, key=lambda c: (-c.priority, c.arrived_s)), limits)


def first_come(candidates: Sequence[C], limits: StepLimits) -> list[C]:
    """First come, first served: the baseline to measure against."""
    return _fill(sorted(candidates, key=lambda c: c.arrived_s), limits)


def round_robin(candidates: Sequence[C], limits: StepLimits) -> list[C]:
    """Everyone in turn: the other baseline."""
    return _fill(sorted(candidates, key=lambda c: (-c.waited_s, c.arrived_s)), limits)


PolicyName = Literal["online", "offline", "first_come", "round_robin"]
POLICIES: Final[dict[str, Policy]] = {
    "online": online,
    "offline": offline,
    "first_come": first_come,
    "round_robin": round_robin,
}


def _fill(order: Sequence[C], limits: StepLimits) -> list[C]:
    """Take in order while streams and positions last; the first always fits."""
    if len(order) <= limits.streams and sum(c.positions for c in order) <= limits.positions:
        return list(dict.fromkeys(order))
    chosen: dict[str, C] = {}
    room = limits.positions
    for candidate in order:
        if len(chosen) == limits.streams:
            break
        if candidate.key in chosen or (candidate.positions > room and chosen):
            continue
        chosen[candidate.key] = candidate
        room -= candidate.positions
    return list(chosen.values())


def candidates(
    streams: Slots[Stream], offline: OfflineShare, most: int, now: float, planned: Planned
) -> list[Stream]:
    """Those that can step and may, each with its plan.

    most: streams of jobs in a step where no listener is expected. planned: plans for streams, and
    gives those that can step.
    """
    heard = [stream for stream in streams if not stream.offline]
    ready = planned(heard)
    if heard:
        offline.heard(now)
    alone = len(heard) == len(streams) or offline.pause_s(now) > 0.0
    if alone or any(stream.needs(offline.tuning.slack_s, now) for stream in heard):
        return ready
    most = offline.size if offline.expects(now) else most
    return [*ready, *_first(streams, most, planned)]


def _first(streams: Slots[Stream], most: int, planned: Planned) -> list[Stream]:
    """As many of jobs as may step, as they came."""
    found: list[Stream] = []
    for stream in sorted((s for s in streams if s.offline), key=lambda s: s.arrived_s):
        if len(found) == most:
            break
        found += planned((stream,))
    return found


def positions(
    streams: Iterable[Stream], blocks: Callable[[str], Collection[int]]
) -> tuple[int, int]:
    """Of the cache: what listeners' streams will have taken, and what others hold. blocks: of a
    stream.
    """
    expected = yielding = 0
    for stream in streams:
        if stream.offline:
            yielding += BLOCK_POSITIONS * len(blocks(stream.key))
        else:
            expected += stream.branches * stream.model.extent
    return expected, yielding


# Streams that are well supplied and wait for one another, so that more of them share a step.


class Listened(Protocol):
    """A stream, as far as this module needs to know it. slack_s: of this turn."""

    slack_s: float

    @property
    def offline(self) -> bool: ...


L = TypeVar("L", bound=Listened)


class Company:
    """The listeners of an engine, and when those with much in hand step; see StepLimits.

    They do not wait beside jobs, which take what listeners leave. Times are the engine's clock's;
    `ready` comes first in a turn.
    """

    def __init__(self, limits: StepLimits, frame_rate_hz: float) -> None:
        self._limits = limits
        self._frames_per_s = limits.together_pace * frame_rate_hz
        self._here = False
        self._rests_until_s = self._yields_until_s = -math.inf
        self._stepping = 1.0
        self._played_until: list[float] = []

    def ready(self, ready: list[L], streams: Iterable[Listened], now: float) -> list[L]:
        """Those of them that do not wait. streams: all that are open."""
        if now < self._yields_until_s:
            ready = [one for one in ready if one.slack_s < self._limits.yielding_slack_s]
        self._played_until = [end for end in self._played_until if end > now]
        jobs = [stream.offline for stream in streams]
        heard = len(jobs) + len(self._played_until)
        self._here = 0 < self._limits.company <= heard and not any(jobs)
        if not self._here:
            return ready
        supplied = sorted(filter(self._well_supplied, ready), key=lambda stream: stream.slack_s)
        waiting = supplied[0 if now < self._rests_until_s else self._limits.together :]
        self._stepping = 1.0 - len(waiting) / max(1, len(supplied))
        left_out = {id(stream) for stream in waiting}
        return [stream for stream in ready if id(stream) not in left_out]

    def stepped(self, streams: Sequence[Listened], frames: int, began_s: float) -> None:
        """These did, from then on, and gained so many frames in all."""
        if self._here and any(map(self._well_supplied, streams)):
            played_s = frames / len(streams) / self._frames_per_s
            self._rests_until_s = began_s + self._stepping * played_s

    def began(self, now: float) -> None:
        """A listener's first codes are on their way to the other stage."""
        if self._limits.company:
            self._yields_until_s = now + self._limits.yield_s

    def heard(self, streams: Iterable[Listened], now: float) -> int:
        """How many listeners' streams need the engine just now: not those that wait."""
        waits = self._here and now < self._rests_until_s
        return sum(not (s.offline or (waits and self._well_supplied(s))) for s in streams)

    def finished(self, stream: Listened, slack_s: float, now: float) -> None:
        """All of it is made, and its listener has so much left to hear."""
        if self._limits.company and not stream.offline:
            self._played_until.append(now + slack_s)

    def wait_s(self, now: float, most_s: float) -> float:
        """For how long an engine that found nothing to do waits, if no command comes."""
        ends = self._rests_until_s, self._yields_until_s
        return min([most_s, *(end - now for end in ends if end > now)])

    def _well_supplied(self, stream: Listened) -> bool:
        return stream.slack_s >= self._limits.together_slack_s
