"""A listener's playback, computed from when each chunk came, and the headroom of first chunks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

# Arrival times are differences of floats: a chunk exactly on time must count as on time.
_ROUNDING_S: Final = 1e-9


@dataclass(frozen=True)
class Arrival:
    """What one chunk meant for the listener.

    `viable`: it met VoxServe's equation 2. `slack_s`: playback left when it came, negative after a
    gap of that length, None for the first chunk. `plays_at_s`: when its first sample is heard.
    """

    viable: bool
    slack_s: float | None
    underrun_s: float
    plays_at_s: float


class PlaybackAccount:
    """One stream's playback, for a listener who starts at the first chunk and never waits.

    Equation 2 (VoxServe, section 2.3) compares every chunk with an undisturbed clock that started
    at the first one: t[i+1] - t[1] <= C[1] + ... + C[i]. Playback itself pauses in a gap and goes
    on when audio comes, so slack and underruns are those of the real listener.
    """

    def __init__(self, sample_rate: int) -> None:
        if sample_rate <= 0:
            raise ValueError(f"sample rate {sample_rate} is not positive")
        self.sample_rate = sample_rate
        self.samples = 0
        self.chunks = 0
        self.viable_chunks = 0
        self.underruns = 0
        self.underrun_s = 0.0
        self.longest_underrun_s = 0.0
        self.min_slack_s: float | None = None
        self.first_chunk_s = 0.0
        self.first_at_s: float | None = None
        self.ends_at_s = 0.0

    @property
    def duration_s(self) -> float:
        """Audio received so far."""
        return self.samples / self.sample_rate

    @property
    def started(self) -> bool:
        return self.first_at_s is not None

    @property
    def viable(self) -> bool:
        """Whether every chunk so far met equation 2."""
        return self.viable_chunks == self.chunks

    def feed(self, samples: int, now_s: float) -> Arrival:
        """`samples` more came at `now_s` (monotonic seconds); raises ValueError without any."""
        if samples <= 0:
            raise ValueError("a chunk has at least one sample")
        if self.first_at_s is None:
            self.first_at_s = self.ends_at_s = now_s
            self.first_chunk_s = samples / self.sample_rate
            arrival = Arrival(True, None, 0.0, now_s)
        else:
            arrival = self._judge(self.first_at_s, now_s)
        self.chunks += 1
        self.viable_chunks += arrival.viable
        self.samples += samples
        self.ends_at_s = arrival.plays_at_s + samples / self.sample_rate
        return arrival

    def slack_s(self, now_s: float) -> float:
        """Playback left at `now_s`; 0 in a gap and before the start."""
        return max(0.0, self.ends_at_s - now_s) if self.started else 0.0

    def position_s(self, now_s: float) -> float:
        """How far into the audio the listener is at `now_s`; it stands still in a gap."""
        return max(0.0, self.duration_s - self.slack_s(now_s))

    def _judge(self, first_at_s: float, now_s: float) -> Arrival:
        slack_s = self.ends_at_s - now_s
        underrun_s = -slack_s if slack_s < -_ROUNDING_S else 0.0
        if self.min_slack_s is None or slack_s < self.min_slack_s:
            self.min_slack_s = slack_s
        if underrun_s:
            self.underruns += 1
            self.underrun_s += underrun_s
            self.longest_underrun_s = max(self.longest_underrun_s, underrun_s)
        viable = now_s - first_at_s <= self.duration_s + _ROUNDING_S
        return Arrival(viable, slack_s, underrun_s, max(now_s, self.ends_at_s))


# Of RFC 6298's estimate of a round trip, half of its weights: streams differ more than packets. A
# stream weighs a sixteenth in the mean, and as much as any other until there are so many.
_LATELY: Final = 16
_DEVIATION: Final = 1 / 8
_DEVIATIONS: Final = 4.0
# One stream says nothing of how they differ.
_FIRST_DEVIATION_S: Final = 0.01
# Where so much is lacking, it is not the first chunk that is too short.
_MOST_S: Final = 0.4
FIRST_CHUNKS: Final = 4
"""Behind so many a listener has some sound in hand."""


class Headroom:
    """Adaptive playout (Ramjee and others, 1994): mean and deviation of what streams needed lately.

    Until other chunks are there a listener has the sound of the first and nothing else. How much of
    it had been used at the worst, known when FIRST_CHUNKS have come, says how long the next
    stream's should be, whatever took the time: a stage, the broker, another program. First chunks
    differ (whole windows come, silence in front is not sent): the next is taken for as short as any
    of late would have been.
    """

    def __init__(self) -> None:
        self._mean_s = self._deviation_s = 0.0
        self._unasked_s: deque[float] = deque(maxlen=_LATELY)

    @property
    def seconds(self) -> float:
        """What the next stream's first chunk is to have more; 0 before anything is known."""
        if not self._unasked_s:
            return 0.0
        needed_s = self._mean_s + _DEVIATIONS * self._deviation_s
        return min(_MOST_S, max(0.0, needed_s - min(self._unasked_s)))

    def add(self, given_s: float, first_s: float, slack_s: float) -> None:
        """A stream whose first chunk was to have `given_s` more, and had `first_s` of sound, had
        `slack_s` left at the least, negative in a gap.
        """
        self._unasked_s.append(first_s - given_s)
        needed_s, streams = first_s - slack_s, len(self._unasked_s)
        if streams == 1:
            self._mean_s, self._deviation_s = needed_s, _FIRST_DEVIATION_S
            return
        # Only those that needed more: one bad moment is not made worse by the good ones behind it.
        if (more_s := needed_s - self._mean_s) > 0.0:
            self._deviation_s += _DEVIATION * (more_s - self._deviation_s)
        self._mean_s += more_s / streams
