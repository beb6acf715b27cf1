"""When a stream's frames become a chunk: tiny first, then a ramp that follows slack."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes in frames. The decoder's own window is the vocoder's affair, not one of these."""

    initial: int = 2
    regular: int = 25
    growth: float = 2.0
    slack_share: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.regular:
            raise ValueError("1 <= initial <= regular")
        if self.growth < 1.0 or not 0.0 < self.slack_share <= 1.0:
            raise ValueError("growth >= 1 and 0 < slack_share <= 1")


def due(
    sizes: ChunkSizes,
    *,
    pending: int,
    sent_chunks: int,
    last_frames: int,
    slack_s: float,
    frame_rate_hz: float,
    done: bool,
) -> int:
    """How many of the `pending` frames to send now; 0 to wait for more.

    A chunk may grow only while the listener holds enough sound to wait for it: the next one is at
    most `growth` times the last and at most `slack_share` of the slack.
    """
    if pending == 0:
        return 0
    if sent_chunks == 0:
        size = sizes.initial
    else:
        affordable = int(max(slack_s, 0.0) * frame_rate_hz * sizes.slack_share)
        size = min(int(last_frames * sizes.growth), affordable, sizes.regular)
        size = max(size, sizes.initial)
    if pending >= size:
        return min(pending, sizes.regular)
    return pending if done else 0
