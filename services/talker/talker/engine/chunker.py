"""When a stream's frames become a chunk: tiny first, then a ramp that follows slack.

The second chunk is the only one that is ever late: it has the sound of the first to be made in,
and nothing else. So a busy engine sends a longer first one, and a second that is as short as can
be; the frames that this costs the first sound are the ones that keep it from running dry.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes in frames. The decoder's own window is the vocoder's affair, not one of these.

    The first chunk has `initial` frames, and `busy_growth` more for an engine that needs all of
    its time for the streams it has. Those behind it have at least `least`.
    """

    initial: int = 2
    regular: int = 25
    growth: float = 2.0
    slack_share: float = 0.5
    least: int = 2
    busy_growth: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.regular:
            raise ValueError("1 <= initial <= regular")
        if self.growth < 1.0 or not 0.0 < self.slack_share <= 1.0:
            raise ValueError("growth >= 1 and 0 < slack_share <= 1")
        if self.least < 1 or self.busy_growth < 0.0:
            raise ValueError("least >= 1 and busy_growth >= 0")

    def first(self, busy: float) -> int:
        """Frames of the first chunk. `busy`: see `due`."""
        return min(self.initial + int(busy * self.busy_growth), self.regular)


def due(
    sizes: ChunkSizes,
    *,
    pending: int,
    sent_chunks: int,
    last_frames: int,
    slack_s: float,
    frame_rate_hz: float,
    busy: float,
    done: bool,
) -> int:
    """How many of the `pending` frames to send now; 0 to wait for more.

    `busy` is the share of real time that all open streams together need.
    A chunk may grow only while the listener holds enough sound to wait for it: the next one is at
    most `growth` times the last and at most `slack_share` of the slack.
    """
    if pending == 0:
        return 0
    if sent_chunks == 0:
        size = sizes.first(busy)
    else:
        affordable = int(max(slack_s, 0.0) * frame_rate_hz * sizes.slack_share)
        size = min(int(last_frames * sizes.growth), affordable, sizes.regular)
        size = max(size, min(sizes.least, sizes.regular))
    if pending >= size:
        return min(pending, sizes.regular)
    return pending if done else 0
