"""Streams that are well supplied and wait for one another, so that more of them share a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from talker.engine.scheduler import StepLimits


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
