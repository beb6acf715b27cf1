"""The books of a text that is spoken passage by passage, each a sequence of its own.

For families whose model knows all of a sequence's text before its first frame. A passage ends when
the model says so, or at its most frames; the next begins at position 0, in the voice that its
prompt names. The log says which passage each frame is of, so that a successor finds its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, concatenate, empty
from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.streams import Plan, TalkerStream

PASSAGE: Final = "passage"
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({PASSAGE: Field((), "i4")})


class Passage(Protocol):
    """What is prefilled before a passage's first frame."""

    @property
    def length(self) -> int:
        """Positions."""

    @property
    def frames(self) -> int:
        """The most that may follow."""


class PassageStream(TalkerStream):
    """Subclasses say what a position holds and what a slot is told; see TalkerStream.

    frame: the fields of a frame. replay: what is logged with it. steps: a frame's, in positions.
    held: positions in the cache that the passage stands behind, of those before it; 0 where each
    begins anew.
    """

    frame: Mapping[str, Field]
    replay: ClassVar[Mapping[str, Field]] = REPLAY
    steps: ClassVar[int] = 1

    def __init__(self, most_frames: int) -> None:
        """most_frames: of all passages together."""
        self._most, self.held = most_frames, 0
        self._passages: list[Any] = []
        self._final = False
        self._at = 0  # the passage that is spoken
        self._begun = 0  # its first frame
        self._done = 0  # steps of it whose inputs can be rebuilt or are in the slot
        self._pending: list[Arrays] = []
        self._spoken: list[Arrays] = []  # of the passage
        self._frames = self._taken = 0
        self._cached = self._staged = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def pending(self) -> int:
        return self._frames - self._taken

    @property
    def begun(self) -> int:
        return self._begun

    @property
    def longest_s(self) -> float | None:
        if self._at >= len(self._passages):
            return None
        # Families may not know of their passages.
        told: float | None = getattr(self.passage, "longest_s", None)
        return told

    def leave(self) -> bool:
        self._next()
        return True

    @property
    def done(self) -> bool:
        over = self._final and self._at >= len(self._passages)
        return over or self._frames >= self._most

    @property
    def extent(self) -> int:
        """Slow speech takes all frames that a passage may come to, most takes half of them."""
        if self._at >= len(self._passages):
            return 0
        frames: int = self.passage.frames
        return self.length + self.steps * frames // 2

    @property
    def passage(self) -> Any:
        """The one that is spoken."""
        return self._passages[self._at]

    @property
    def length(self) -> int:
        """Positions in front of the passage's first step."""
        length: int = self.passage.length
        return length

    @property
    def spoken(self) -> Arrays:
        """Frames of it so far."""
        return concatenate(self._spoken) if self._spoken else empty(self.frame)

    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        self._passages.extend(units)
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        of = arrays[PASSAGE]
        self._at = int(of[-1])
        self._frames = self._taken = len(of)
        self._begun = int(np.searchsorted(of, self._at))
        self._spoken = [{name: arrays[name][self._begun :] for name in self.frame}]
        self._done = self.steps * (self._frames - self._begun)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # without a passage's text nothing of it can be spoken
        if self.done or self._at >= len(self._passages):
            return None
        if self._done + ahead >= self.steps * self._limit:
            return None
        end = self.length + self._done + ahead
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(self.held, end - self.held)

    @property
    def _limit(self) -> int:
        """Frames that the passage may come to."""
        most: int = min(self.passage.frames, self._most - self._begun)
        return most

    def _settle(self) -> None:
        """Go on with the next passage where this one has all of its frames."""
        known = self._at < len(self._passages)
        if known and self._frames - self._begun >= self.passage.frames:
            self._next()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._cached = True
        self._done = cached - self.length + 1
        if gained := len(frames[next(iter(self.frame))]):
            self._spoken.append(frames)
            of = np.full(gained, self._at, np.int32)
            self._pending.append({**{name: frames[name] for name in self.frame}, PASSAGE: of})
            self._frames += gained
        if ended:
            self._next()
        else:
            self._settle()

    def _next(self) -> None:
        self._at, self._begun, self._spoken = self._at + 1, self._frames, []
        self.evict()

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        whole = concatenate(self._pending)
        self._pending = [{name: array[count:] for name, array in whole.items()}]
        self._taken += count
        return {name: self._logged(name, array[:count]) for name, array in whole.items()}, ()

    def _logged(self, name: str, array: Array) -> Array:
        return array.astype({**self.frame, **self.replay}[name].dtype)

    def evict(self) -> None:
        self._cached = self._staged = False
        self._done = self.steps * (self._frames - self._begun)
