"""Headroom of first chunks: how much longer they are, so that those behind them come in time."""

from __future__ import annotations

from typing import Final

# Of RFC 6298's estimate of a round trip, half of its weights: streams differ more than packets.
_MEAN: Final = 1 / 16
_DEVIATION: Final = 1 / 8
_DEVIATIONS: Final = 4.0
# One stream says nothing of how they differ.
_FIRST_DEVIATION_S: Final = 0.01
# Where so much is lacking, it is not the first chunk that is too short.
_MOST_S: Final = 0.4
FIRST_CHUNKS: Final = 4
"""Behind so many a listener has some sound in hand."""


class Headroom:
    """Adaptive playout (Ramjee and others, 1994): mean and deviation of what streams lacked lately.

    Until other chunks are there a listener has the sound of the first and nothing else. The least
    that was left of it, known when FIRST_CHUNKS have come, says what the next stream's first chunk
    should have more, whatever took the time: a stage, the broker, another program.
    """

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    @property
    def seconds(self) -> float:
        """For the next stream; 0 before anything is known."""
        if self._mean_s is None:
            return 0.0
        return min(_MOST_S, max(0.0, self._mean_s + _DEVIATIONS * self._deviation_s))

    def add(self, given_s: float, slack_s: float) -> None:
        """A stream was given `given_s` and had `slack_s` left at the least, negative in a gap."""
        lacked_s = given_s - slack_s
        if self._mean_s is None:
            self._mean_s, self._deviation_s = lacked_s, _FIRST_DEVIATION_S
            return
        self._deviation_s += _DEVIATION * (abs(lacked_s - self._mean_s) - self._deviation_s)
        self._mean_s += _MEAN * (lacked_s - self._mean_s)
