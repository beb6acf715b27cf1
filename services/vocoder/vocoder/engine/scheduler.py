"""The streams of the next step, and the frames of each: earliest playback deadline first.

After its first chunk a listener gains nothing from speed, only from never running dry
(VoxServe, section 3.2), so the moment a listener runs dry is the only rank there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ready:
    """A stream with something to decode: `frames` waiting, or only its tail (`final`, none), or a
    step of what `prepares` them, which takes no room for frames.

    `startup` streams have sent nothing yet; the listeners of the others run dry at `deadline_s`.
    `waited_s`: how long it has been ready and not chosen. `offline`: no listener hears it as it is
    made, and it steps only where no other stream could.
    """

    key: str
    frames: int
    startup: bool
    deadline_s: float
    arrived_s: float = 0.0
    waited_s: float = 0.0
    priority: int = 5
    prepares: bool = False
    offline: bool = False

    def __post_init__(self) -> None:
        if self.frames < 0 or self.waited_s < 0.0:
            raise ValueError("frames and waited_s are not negative")


@dataclass(frozen=True)
class BatchLimits:
    """What one step may hold, so that it stays short whatever waits.

    `frames` bounds streams x longest piece, which is what a padded batch costs. A longer chunk is
    decoded in pieces of at most `stream_frames`. `startup_share` of the room goes to startup
    streams before all others. Deadlines starve no stream, but startup streams beyond the share
    might never be chosen: a stream that waited `starved_s` goes before all. Small, that would undo
    the deadlines whenever many wait, after a takeover for one.
    """

    streams: int = 16
    frames: int = 32
    stream_frames: int = 16
    startup_share: float = 0.5
    starved_s: float = 1.0

    def __post_init__(self) -> None:
        if min(self.streams, self.frames, self.stream_frames) < 1 or self.starved_s <= 0.0:
            raise ValueError("a step has room for something")
        if not 0.0 < self.startup_share <= 1.0:
            raise ValueError("startup_share is in (0, 1]")


@dataclass(frozen=True)
class ScheduledFrames:
    """Decode `frames` frames of the stream `key` in this step."""

    key: str
    frames: int


def schedule(ready: Sequence[Ready], limits: BatchLimits) -> list[ScheduledFrames]:
    """The step's batch, most urgent first; never empty if anything is ready."""
    heard = [stream for stream in ready if not stream.offline]
    return _fill(_ranked(heard or ready, limits), limits)


def _ranked(ready: Sequence[Ready], limits: BatchLimits) -> list[Ready]:
    starved = [r for r in ready if r.waited_s >= limits.starved_s]
    rest = [r for r in ready if r.waited_s < limits.starved_s]
    starting = [r for r in rest if r.startup]
    steady = [r for r in rest if not r.startup]
    starved.sort(key=lambda r: (-r.waited_s, r.arrived_s))
    starting.sort(key=lambda r: (-r.priority, r.arrived_s))
    steady.sort(key=lambda r: (r.deadline_s, r.arrived_s))
    share = _share(starting, limits) if steady else len(starting)
    return [*starved, *starting[:share], *steady, *starting[share:]]


def _share(starting: Sequence[Ready], limits: BatchLimits) -> int:
    """How many startup streams go first: bounded in streams and in frames alike."""
    room = math.floor(limits.frames * limits.startup_share)
    most = max(1, math.floor(limits.streams * limits.startup_share))
    longest = 0
    for count, stream in enumerate(starting[:most]):
        longest = max(longest, min(stream.frames, limits.stream_frames))
        if count and (count + 1) * longest > room:
            return count
    return min(most, len(starting))


def _fill(order: Sequence[Ready], limits: BatchLimits) -> list[ScheduledFrames]:
    """Take in order while there is room. A longer piece is cut to what the batch has room for."""
    picks: list[ScheduledFrames] = []
    pieces, longest, full = 0, 0, False
    for stream in order:
        if len(picks) == limits.streams:
            break
        if stream.prepares:
            picks.append(ScheduledFrames(stream.key, 0))
            continue
        room = limits.frames // (pieces + 1)
        frames = min(stream.frames, limits.stream_frames, room)
        full = full or longest > room or (frames == 0 and stream.frames > 0)
        if not full:
            picks.append(ScheduledFrames(stream.key, frames))
            pieces, longest = pieces + 1, max(longest, frames)
    return picks
