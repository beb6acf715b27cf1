"""The part of an engine that streams of jobs may take, behind what listeners' streams need.

A listener who comes meets the step that is under way, and computes behind it. So while listeners
are about, steps with streams of jobs are short and have pauses between them, and there are none
while one of the listeners waits for a first sound or could soon run dry. Where no listener was for
a while, jobs fill every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

# A step that took too long makes the next ones smaller by this; others make them so much larger.
_LESS: Final = 0.7
_MORE: Final = 0.25


@dataclass(frozen=True)
class OfflineTuning:
    """Streams of jobs beside listeners' at an engine."""

    slack_s: float = 2.0
    """Playback that every listener has left when a step holds any of them."""
    step_s: float = 0.010
    """How long a step with some of them may take while a listener is expected."""
    share: float = 0.5
    """Of the time, that such steps take at the most."""
    positions: int = 64
    """Positions of a prompt of theirs in such a step, at most."""
    expected_s: float = 10.0
    """For so long after the last listener the next one is expected."""
    first_s: float = 0.5
    """So long a talker waits for a text that is being read, and a vocoder for the first codes of a
    stream, and take no step for jobs.
    """


class OfflineShare:
    """An engine's listeners, as far as they matter to its streams of jobs, and what those may take.

    Times are the engine's clock's. `size`: what a step may hold while a listener is expected, in
    streams or in frames; it follows from what such steps took.
    """

    def __init__(self, tuning: OfflineTuning = OfflineTuning()) -> None:
        self.tuning = tuning
        self._size = 1.0
        self._expected_until_s = self._held_until_s = self._rests_until_s = -math.inf

    @property
    def size(self) -> int:
        return int(self._size)

    def heard(self, now: float) -> None:
        """A stream with a listener is open."""
        self._expected_until_s = now + self.tuning.expected_s

    def coming(self, now: float) -> None:
        """A stream with a listener is about to be opened."""
        self.heard(now)
        self._held_until_s = now + self.tuning.first_s

    def expects(self, now: float) -> bool:
        """Whether a listener may come at any moment: one was here lately."""
        return now < self._expected_until_s

    def pause_s(self, now: float) -> float:
        """For how long there is no step for jobs, whatever listeners need; 0 or less for none."""
        return max(self._held_until_s, self._rests_until_s) - now

    def wait_s(self, now: float, most_s: float) -> float:
        """For how long an engine that found nothing to do waits, if no command comes."""
        pause_s = self.pause_s(now)
        return min(most_s, pause_s) if pause_s > 0.0 else most_s

    def stepped(self, now: float, took_s: float, size: int) -> None:
        """A step with streams of jobs in it, of this size, took so long."""
        if not self.expects(now):
            return
        self._rests_until_s = now + took_s * (1.0 / self.tuning.share - 1.0)
        if took_s > self.tuning.step_s:
            self._size = max(1.0, self._size * _LESS)
        elif size >= self.size:
            self._size += _MORE


__all__ = ["OfflineShare", "OfflineTuning"]
