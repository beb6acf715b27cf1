"""What a listener who plays at once would hear: first sound, slack, gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

_BYTES_PER_SAMPLE = 2


@dataclass
class ListenerAccount:
    """Times are seconds of one monotonic clock; `asked_s` is when the first text was sent."""

    asked_s: float
    sample_rate: int = 0
    audio_s: float = 0.0
    first_s: float | None = None
    last_s: float = 0.0
    gaps_s: float = 0.0
    least_slack_s: float | None = field(default=None)

    def hear(self, pcm: bytes, now_s: float) -> None:
        """Audio arrived. Slack: playback left at that moment (VoxServe, eq. 2)."""
        if self.first_s is None:
            self.first_s = now_s
        else:
            slack_s = self.first_s + self.gaps_s + self.audio_s - now_s
            least = self.least_slack_s
            self.least_slack_s = slack_s if least is None else min(least, slack_s)
            self.gaps_s += max(0.0, -slack_s)
        self.audio_s += len(pcm) / _BYTES_PER_SAMPLE / self.sample_rate
        self.last_s = now_s

    @property
    def ttfp_s(self) -> float | None:
        """First text sent to first audio received."""
        return None if self.first_s is None else self.first_s - self.asked_s

    @property
    def realtime_factor(self) -> float | None:
        """Time until all audio was there, over its duration."""
        return (self.last_s - self.asked_s) / self.audio_s if self.audio_s else None
