"""Cutting a stream's frames into chunks: tiny first, then a ramp that follows slack.

The second chunk is the only one that is ever late: it has the sound of the first to be made in,
and nothing else. So a busy engine sends a longer first one, and a second that is as short as can
be; the frames that this costs the first sound are the ones that keep it from running dry. What its
gateway has seen streams lack says so too, whatever it was that took the time.

A chunk costs the bus and the next stage the same whatever its length. So listeners who have much in
hand get longer ones than the regular, where an engine is done with them as soon as with a regular
one under load: a death then costs no more than it did.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ChunkSeconds:
    """What a family recommends: how long its first chunk and its regular ones last.

    busy_growth, alone: see ChunkSizes, in frames.
    """

    initial_s: float = 0.12
    regular_s: float = 1.0
    busy_growth: float = 2.0
    alone: int = 0

    def sizes(
        self, frame_rate_hz: float, *, initial: int | None = None, regular: int | None = None
    ) -> ChunkSizes:
        """In frames, unless `initial` and `regular` say otherwise."""
        first = max(1, round(self.initial_s * frame_rate_hz)) if initial is None else initial
        most = max(first, round(self.regular_s * frame_rate_hz)) if regular is None else regular
        alone = self.alone if initial is None else 0
        return ChunkSizes(min(first, most), most, busy_growth=self.busy_growth, alone=alone)


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes in frames. The decoder's own window is the vocoder's affair, not one of these.

    The first chunk has `initial` frames, and `busy_growth` more for an engine that needs all of
    its time for the streams it has. Those behind it have at least `least`. One beyond `regular`
    has at most `ample` times as many, and is made within `ample_s` seconds for every second that a
    regular one lasts. A stream that has the engine to itself begins with `alone` frames and goes on
    with as many, if that is not 0: no other's prompt comes between.
    """

    initial: int = 2
    regular: int = 25
    growth: float = 2.0
    slack_share: float = 0.5
    least: int = 2
    busy_growth: float = 2.0
    ample: float = 2.0
    ample_s: float = 0.5
    alone: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.regular:
            raise ValueError("1 <= initial <= regular")
        if self.growth < 1.0 or not 0.0 < self.slack_share <= 1.0:
            raise ValueError("growth >= 1 and 0 < slack_share <= 1")
        if self.least < 1 or self.busy_growth < 0.0:
            raise ValueError("least >= 1 and busy_growth >= 0")
        if self.ample < 1.0 or self.ample_s <= 0.0:
            raise ValueError("ample >= 1 and ample_s > 0")

    def among(self, streams: int, busy: float) -> ChunkSizes:
        """Those for an engine with so many streams; `busy`: as in `first`, without prompts."""
        if not self.alone or streams > 1 or busy >= 1.0:
            return self
        return replace(self, initial=self.alone, least=self.alone, busy_growth=0.0)

    def first(self, busy: float, headroom: float = 0.0) -> int:
        """Frames of the first chunk. `busy`: the share of real time that all streams need.
        `headroom`: how many more its gateway asks for.
        """
        more = max(int(busy * self.busy_growth), math.ceil(headroom))
        return min(self.initial + more, self.regular)

    def next(self, last: int, slack_frames: float, busy: float) -> int:
        """Frames of a chunk that follows one of `last`; `busy` as in `first`.

        It may grow only while the listener holds enough sound to wait for it: to at most `growth`
        times the last one and at most `slack_share` of the slack.
        """
        most = self.most(busy)
        size = min(int(last * self.growth), int(slack_frames * self.slack_share), most)
        return max(size, min(self.least, most))

    def most(self, busy: float) -> int:
        """Frames of the longest chunk."""
        made = self.ample_s / busy if busy > 0.0 else self.ample
        return int(self.regular * max(1.0, min(self.ample, made)))
