"""The books of a text that is one sequence: its prompt, and behind it a frame a step.

For families whose model knows all of a text before its first frame. A frame is its codes, which
are fed back as they are logged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.streams import Plan, SlotWriter, TalkerStream


class WholePrompt(Protocol):
    """What is prefilled before the first frame."""

    @property
    def length(self) -> int:
        """Positions."""

    @property
    def frames(self) -> int:
        """The most that may follow."""

    def keys(self) -> Sequence[bytes]:
        """See TalkerStream.prefix."""


P = TypeVar("P", bound=WholePrompt)


class PromptedStream(TalkerStream, Generic[P]):
    """Subclasses say what a position holds and what a slot is told; see TalkerStream."""

    def __init__(self, codebooks: int) -> None:
        self._codebooks = codebooks
        self._prompt: P | None = None
        self._keys: Sequence[bytes] = ()
        self._codes: list[Array] = []
        self._taken = 0
        self._cached = self._ended = self._staged = False

    @property
    def prompt(self) -> P:
        """Of a stream that has a plan."""
        assert self._prompt is not None
        return self._prompt

    @property
    def codes(self) -> Array:
        """Of all frames so far, [frames, codebooks]."""
        return np.stack(self._codes) if self._codes else np.zeros((0, self._codebooks), np.int64)

    @property
    def frames(self) -> int:
        return len(self._codes)

    @property
    def pending(self) -> int:
        return len(self._codes) - self._taken

    @property
    def done(self) -> bool:
        return self._ended or (self._prompt is not None and self.frames >= self._prompt.frames)

    def feed(self, units: Sequence[P], *, final: bool) -> None:
        del final  # the prompt is the last unit and the first
        for unit in units:
            self._prompt, self._keys = unit, unit.keys()

    @property
    def extent(self) -> int:
        """Slow speech takes all frames that may follow, most takes half of them."""
        return 0 if self._prompt is None else self._prompt.length + self._prompt.frames // 2

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def restore(self, arrays: Arrays) -> None:
        self._codes = list(arrays["codes"])
        self._taken = len(self._codes)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # the text is here, or nothing can be spoken
        coming = self.frames + ahead
        if self._prompt is None or self.done or coming >= self._prompt.frames:
            return None
        end = self._prompt.length + coming
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    def stage(self, write: SlotWriter) -> None:
        if not self._staged:
            self._staged = True
            self.begin(write)

    @abstractmethod
    def begin(self, write: SlotWriter) -> None:
        """Write all of the slot's state, behind the frames so far."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del cached  # always all of what was planned
        self._cached = True
        self._codes.extend(frames["codes"])
        self._ended = self._ended or ended

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        first, self._taken = self._taken, self._taken + count
        return {"codes": np.stack(self._codes[first : self._taken]).astype(np.int16)}, ()

    def evict(self) -> None:
        self._cached = self._staged = False
