"""Control of admission: a limit on streams and a pace of starts, from what listeners have left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class LoopTuning:
    """How the limit on streams moves. Origin: docs/admission.md."""

    heard_s: float = 0.7
    """Listeners count who have heard so much."""
    low_s: float = 0.4
    """Where one of them has less left, the limit falls."""
    high_s: float = 0.56
    """Where all have more and the limit is used up, it rises."""
    fall: float = 0.8
    """The part of the open streams that it falls to."""
    fall_every_s: float = 1.0
    """It falls once in so long."""
    rise: float = 0.1
    """The part of itself that it rises by in a second."""
    search: float = 0.3
    """The same before its first fall."""
    search_most: float = 1.2
    """The same where the one who has least has three times `high_s` or more; in between it is in
    proportion.
    """
    first: float = 0.5
    """The part of what workers believe that they keep up with at which it begins."""
    floor_s: float = 0.15
    """Where one has less left, the youngest stream without a sound is given up."""
    give_up_every_s: float = 0.2
    """One is given up in so long."""
    weight: float = 0.2
    """Of one first sound in the average of how much each silent stream delays them."""
    first_starts: int = 4
    """So many a worker may be silent before there was a first sound."""
    start_share: float = 0.1
    """The part of the limit that may be silent at any rate: where something else makes first sounds
    late, fewer streams do not help.
    """
    hold_s: float = 0.1
    """A request that there is no room for is held in case there is some by then."""


@dataclass(frozen=True)
class AdmissionLimits:
    """How a gateway weighs what it sees.

    A stream beyond its tenant's share gets `borrowed_priority`. A key with limits waits for at most
    `acquaintance_s` where a gateway does not know the others yet. A stream that got neither text
    nor gave sound for `pause_s` may be about to rest, which it does after `rest_s`: the stages have
    parked it by then. Gateways look
    at their streams every `look_s`, and tell each other what they saw every `tell_s`. A refused
    caller is told to come again within `retry_s`: the limit may be another one by then.
    """

    borrowed_priority: int = 3
    acquaintance_s: float = 1.0
    pause_s: float = 0.2
    rest_s: float = 1.0
    look_s: float = 0.05
    tell_s: float = 0.2
    retry_s: float = 6.0
    loop: LoopTuning = LoopTuning()


# After a longer pause between two looks the limit rises no more than after this.
_LONGEST_LOOK_S: Final = 0.5


@dataclass(frozen=True)
class Streams:
    """The streams of a model, at all gateways together.

    silent: of `open`, those without a first sound. slack_s: the least playback that a listener has
    left who waits for workers and has heard enough to judge by; None without any. least, most:
    streams that are always let in, one a worker, and those that workers have slots and caches for.
    expected: what workers believe that they keep up with.
    """

    open: int
    silent: int
    slack_s: float | None
    least: int
    most: int
    expected: int


class Loop:
    """One model's. `limit`: streams. `first_s`: by how much each silent stream delays a sound."""

    def __init__(self, target_s: float, tuning: LoopTuning) -> None:
        """`target_s`: how long a first sound may take."""
        self._target_s = target_s
        self._tuning = tuning
        self._looked_s = self._fell_s = self._gave_up_s = -math.inf
        self._searching = True
        self._least = 0
        self.first_s = 0.0
        self.limit = 0.0

    def look(self, streams: Streams, now: float) -> None:
        """Move the limit; to be called many times a second while there are streams."""
        tuning, slack_s = self._tuning, streams.slack_s
        if not self.limit:
            self.limit = tuning.first * streams.expected
        self._workers(streams.least)
        passed_s = min(now - self._looked_s, _LONGEST_LOOK_S)
        self._looked_s = now
        if slack_s is not None and slack_s < tuning.low_s:
            self._fall(streams, now)
        elif slack_s is not None and slack_s > tuning.high_s and streams.open >= self.limit - 1.0:
            self.limit += max(1.0, self._rise(slack_s) * self.limit) * passed_s
        self.limit = float(max(min(self.limit, streams.most), streams.least))

    def _rise(self, slack_s: float) -> float:
        """The part of the limit by which it rises in a second."""
        tuning = self._tuning
        if not self._searching:
            return tuning.rise
        ample = (slack_s / tuning.high_s - 1.0) / 2.0
        return tuning.search + (tuning.search_most - tuning.search) * min(1.0, ample)

    def _workers(self, least: int) -> None:
        """One that is gone takes its part of the limit with it; of a new one nothing is known."""
        if least < self._least:
            self.limit *= least / self._least
        self._searching = self._searching or least > self._least
        self._least = least

    def _fall(self, streams: Streams, now: float) -> None:
        self._searching = False
        if now - self._fell_s >= self._tuning.fall_every_s:
            self._fell_s = now
            self.limit = min(self.limit, streams.open) * self._tuning.fall

    def sounded(self, took_s: float, silent: int) -> None:
        """A first sound took so long, of a stream that began as one of so many silent ones."""
        each_s = took_s / max(1, silent)
        weight = self._tuning.weight if self.first_s else 1.0
        self.first_s += weight * (each_s - self.first_s)

    @property
    def starts(self) -> int:
        """Streams that may be silent at once; a few before it is known what a first sound takes."""
        if not self.first_s:
            return self._tuning.first_starts * max(self._least, 1)
        least = max(self._least, int(self._tuning.start_share * self.limit), 1)
        return max(least, int(self._target_s / self.first_s))

    def gives_up(self, streams: Streams, now: float) -> bool:
        """Whether a silent stream is to be given up, so that those that sound do not run dry.

        The streams that are always let in are not.
        """
        tuning = self._tuning
        if streams.slack_s is None or streams.slack_s >= tuning.floor_s:
            return False
        if streams.open <= streams.least or now - self._gave_up_s < tuning.give_up_every_s:
            return False
        self._gave_up_s = now
        return True
