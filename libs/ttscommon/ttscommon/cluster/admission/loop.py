"""Control of admission: a limit on streams and a pace of starts, from what listeners have left.

Pure: the caller brings the clock. Nothing here knows how long a step takes or what a machine has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ttscommon.cluster.admission.limits import LoopTuning

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
