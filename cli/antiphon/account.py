"""An account of what the person at this terminal heard, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ttscommon.sound.playback import PlaybackAccount

_BYTES_PER_SAMPLE: Final = 2


@dataclass
class ListenerAccount:
    """Times are seconds of one monotonic clock; `asked_s` is when the first text was sent."""

    asked_s: float
    playback: PlaybackAccount | None = None
    last_s: float = 0.0

    def start(self, sample_rate: int) -> None:
        """Audio follows at this rate (Hz)."""
        self.playback = PlaybackAccount(sample_rate)

    def hear(self, pcm: bytes, now_s: float) -> None:
        """Audio arrived, s16le; `start` came before."""
        if self.playback is None:
            raise ValueError("audio before its sample rate")
        self.playback.feed(len(pcm) // _BYTES_PER_SAMPLE, now_s)
        self.last_s = now_s

    @property
    def audio_s(self) -> float:
        return self.playback.duration_s if self.playback else 0.0

    @property
    def ttfp_s(self) -> float | None:
        """First text sent to first audio received."""
        first_s = self.playback.first_at_s if self.playback else None
        return None if first_s is None else first_s - self.asked_s

    @property
    def realtime_factor(self) -> float | None:
        """Time until all audio was there, over its duration."""
        return (self.last_s - self.asked_s) / self.audio_s if self.audio_s else None
