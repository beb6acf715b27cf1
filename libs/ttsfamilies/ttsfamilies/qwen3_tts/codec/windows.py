"""The official package's windows: a decoder's state built anew at each, from a little left context.

An approximation whose memory is bounded: a successor needs no more than one window and its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """Frames decoded together, and frames decoded again in front of them. Positive, in frames."""

    size: int = 300
    context: int = 25

    def __post_init__(self) -> None:
        if self.size < 1 or self.context < 0:
            raise ValueError("a window holds frames, its context no fewer than none")

    def replay_from(self, frame: int) -> int:
        """The first frame that a state needs to be fed before it can decode `frame`."""
        return max(0, frame // self.size * self.size - self.context)

    def begins_at(self, frame: int) -> bool:
        """Whether `frame` is the first of a window that is not the first."""
        return frame > 0 and frame % self.size == 0

    def spans(self, frame: int, count: int) -> Iterator[tuple[int, int, int]]:
        """As `cut`, with the first frame to decode before each: a window's context, or itself."""
        for first, stop in self.cut(frame, count):
            yield self.replay_from(first) if self.begins_at(first) else first, first, stop

    def cut(self, frame: int, count: int) -> Iterator[tuple[int, int]]:
        """Frames `frame` .. `frame + count` as (first, last + 1), none across a window's end."""
        end = frame + count
        while frame < end:
            stop = min(end, (frame // self.size + 1) * self.size)
            yield frame, stop
            frame = stop
