"""What a listener hears, computed from when each chunk left: pure arithmetic, no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arrival:
    """What one chunk meant for the listener.

    `viable`: it met VoxServe's equation 2. `slack_s`: playback left when it came, negative after
    a gap of that length, None for the first chunk.
    """

    viable: bool
    slack_s: float | None
    underrun_s: float


class PlaybackAccount:
    """One stream's playback, for a listener who starts at the first chunk and never waits.

    Equation 2 (VoxServe, section 2.3) compares every chunk with an undisturbed clock that started
    at the first one: t[i+1] - t[1] <= C[1] + ... + C[i]. Playback itself pauses in a gap and goes
    on when audio comes, so slack and underruns are those of the real listener.
    """

    def __init__(self, sample_rate: int) -> None:
        if sample_rate <= 0:
            raise ValueError(f"sample rate {sample_rate} is not positive")
        self._rate = sample_rate
        self._first_s: float | None = None
        self._ends_s = 0.0
        self.samples = 0
        self.underruns = 0
        self.underrun_s = 0.0
        self.late_chunks = 0
        self.min_slack_s: float | None = None

    @property
    def duration_s(self) -> float:
        return self.samples / self._rate

    @property
    def started(self) -> bool:
        return self._first_s is not None

    @property
    def viable(self) -> bool:
        """Whether every chunk so far met equation 2."""
        return self.late_chunks == 0

    def feed(self, samples: int, now_s: float) -> Arrival:
        """`samples` more were handed to the listener at `now_s` (monotonic seconds)."""
        if self._first_s is None:
            self._first_s = self._ends_s = now_s
            arrival = Arrival(True, None, 0.0)
        else:
            arrival = self._judge(self._first_s, now_s)
        self._ends_s = max(self._ends_s, now_s) + samples / self._rate
        self.samples += samples
        return arrival

    def slack_s(self, now_s: float) -> float:
        """Playback left at `now_s`; 0 in a gap and before the start."""
        return max(0.0, self._ends_s - now_s) if self.started else 0.0

    def position_s(self, now_s: float) -> float:
        """How far into the audio the listener is at `now_s`; it stands still in a gap."""
        return max(0.0, self.duration_s - self.slack_s(now_s))

    def _judge(self, first_s: float, now_s: float) -> Arrival:
        slack = self._ends_s - now_s
        underrun = max(0.0, -slack)
        viable = now_s - first_s <= self.duration_s
        if self.min_slack_s is None or slack < self.min_slack_s:
            self.min_slack_s = slack
        if underrun > 0.0:
            self.underruns += 1
            self.underrun_s += underrun
        if not viable:
            self.late_chunks += 1
        return Arrival(viable, slack, underrun)
