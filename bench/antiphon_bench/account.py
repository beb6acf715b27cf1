"""What a listener gets: playback of one stream, from arrival times alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Arrival times are differences of floats: a chunk exactly on time must count as on time.
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class Verdict:
    """One chunk as the listener meets it.

    `slack_s` is how much earlier than needed it came on the clock of VoxServe's eq. 2 (None for
    the first chunk, which has no deadline); `plays_at_s` is when its first sample is heard.
    """

    slack_s: float | None
    viable: bool
    plays_at_s: float


class PlaybackAccount:
    """Books the chunks of one stream.

    Two clocks. Viability and slack follow VoxServe eq. 2 to the letter: chunk i+1 is due when
    everything before it, played without a break from the first arrival, is over; a late chunk
    does not move later deadlines. Underruns follow a player that pauses when dry and resumes
    at the next chunk, so each gap is counted once and for its own length.
    """

    def __init__(self, sample_rate: int) -> None:
        if sample_rate <= 0:
            raise ValueError("sample_rate must be positive")
        self.sample_rate = sample_rate
        self.samples = 0
        self.chunks = 0
        self.viable_chunks = 0
        self.min_slack_s: float | None = None
        self.underruns = 0
        self.underrun_s = 0.0
        self.first_at_s: float | None = None
        self.ends_at_s = 0.0

    @property
    def audio_s(self) -> float:
        """Audio received so far."""
        return self.samples / self.sample_rate

    @property
    def viable(self) -> bool:
        """True when there was audio and every chunk of it was in time."""
        return self.chunks > 0 and self.viable_chunks == self.chunks

    def feed(self, now_s: float, samples: int) -> Verdict:
        """Books a chunk of `samples` that arrived at `now_s`."""
        if samples <= 0:
            raise ValueError("a chunk has at least one sample")
        verdict = self._judge(now_s)
        if verdict.slack_s is not None:
            least = self.min_slack_s
            self.min_slack_s = verdict.slack_s if least is None else min(least, verdict.slack_s)
        self.chunks += 1
        self.viable_chunks += verdict.viable
        self.samples += samples
        self.ends_at_s = verdict.plays_at_s + samples / self.sample_rate
        return verdict

    def _judge(self, now_s: float) -> Verdict:
        if self.first_at_s is None:
            self.first_at_s = now_s
            return Verdict(slack_s=None, viable=True, plays_at_s=now_s)
        slack_s = self.first_at_s + self.audio_s - now_s
        gap_s = now_s - self.ends_at_s
        if gap_s > _ROUNDING_S:
            self.underruns += 1
            self.underrun_s += gap_s
        plays_at_s = max(now_s, self.ends_at_s)
        return Verdict(slack_s=slack_s, viable=slack_s >= -_ROUNDING_S, plays_at_s=plays_at_s)


class AudibleDetector:
    """Finds the first sample louder than a threshold in a stream of int16 pieces."""

    def __init__(self, threshold_dbfs: float = -50.0) -> None:
        self._level = 32768.0 * 10.0 ** (threshold_dbfs / 20.0)
        self.found = False

    def feed(self, pcm: NDArray[np.int16]) -> int | None:
        """Returns the index in `pcm` [samples] of the first audible sample, once."""
        if self.found or pcm.size == 0:
            return None
        loud = np.abs(pcm.astype(np.int32)) > self._level
        index = int(loud.argmax())
        if not loud[index]:
            return None
        self.found = True
        return index
