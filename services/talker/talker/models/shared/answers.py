"""The books of an answer: ids of a language model, some of which are sound and the others text.

A frame is a code of sound, and with it travel the ids that came between it and the frame before it
(docs/decisions/spoken-turns.md). They are the device's alone until the frame is whole: a stream
whose cache
was taken away draws them again, with the same noise. Where too many come without sound, or the
answer ends behind some, they travel with a frame of silence.
"""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from talker.family.prompted import WholePrompt
from talker.family.streams import Plan, SlotWriter, TalkerStream
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SaidText, WordTime
from ttscommon.wire.silence import FLAG, SILENT

TOKEN: Final = "token"
BETWEEN: Final = "between"
MOST_BETWEEN: Final = 32
NO_ID: Final = -1
REPLAY: Final[Mapping[str, Field]] = {BETWEEN: Field((MOST_BETWEEN,), "i4"), SILENT: FLAG}
# Instead of an id: the one that the slot's last step drew.
DRAWN: Final = -1

P = TypeVar("P", bound=WholePrompt)


class AnswerIds(NamedTuple):
    """Of a vocabulary: `codes` ids of sound, from `first` on, and those that end an answer."""

    first: int
    codes: int
    ends: tuple[int, ...]


def frame_of(ids: AnswerIds) -> dict[str, Field]:
    """What a vocoder reads of a frame."""
    return {TOKEN: Field((), "i2", ids.codes)}


class AnswerStream(TalkerStream, Generic[P]):
    """Subclasses say what a slot is told of its draws, and what a prompt's positions hold."""

    def __init__(
        self, ids: AnswerIds, spelled: Callable[[Sequence[int]], bytes], rate_hz: float
    ) -> None:
        """spelled: ids between frames as UTF-8, without those that are no text."""
        self._ids, self._spelled, self._rate_hz = ids, spelled, rate_hz
        self._prompt: P | None = None
        self._keys: Sequence[bytes] = ()
        self._frames: list[tuple[int, Array, int]] = []
        self._drawn: list[int] = []  # of all frames
        self._taken = self._heard = self._characters = 0
        self._done = 0  # ids so far, those of no frame yet included
        self._cached = self._ended = self._staged = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def prompt(self) -> P:
        """Of a stream that has a plan; its `frames` are ids here."""
        assert self._prompt is not None
        return self._prompt

    @property
    def drawn(self) -> Sequence[int]:
        """Ids of all frames so far."""
        return self._drawn

    @property
    def frames(self) -> int:
        return len(self._frames)

    @property
    def pending(self) -> int:
        return len(self._frames) - self._taken

    @property
    def done(self) -> bool:
        return self._ended or (self._prompt is not None and self._done >= self._prompt.frames)

    @property
    def extent(self) -> int:
        """Most answers are a fraction of what they may be."""
        return 0 if self._prompt is None else self._prompt.length + self._prompt.frames // 4

    def feed(self, units: Sequence[P], *, final: bool) -> None:
        del final  # the prompt is the last unit and the first
        for unit in units:
            self._prompt, self._keys = unit, unit.keys()

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def restore(self, arrays: Arrays) -> None:
        self._take_in(arrays)
        self._taken = len(self._frames)
        self._done = len(self._drawn)
        self.said()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # what is answered is here, or nothing can be said
        if self._prompt is None or self.done or self._done + ahead >= self._prompt.frames:
            return None
        end = self._prompt.length + self._done + ahead
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    def stage(self, write: SlotWriter) -> None:
        if self._staged:
            return
        self._staged = True
        write(BETWEEN, np.full(MOST_BETWEEN, NO_ID, np.int64))
        write("step", self._done)
        write("most", self.prompt.frames)
        for name in ("drawn", "over", "filled"):
            write(name, 0)
        self.begin(write)

    @abstractmethod
    def begin(self, write: SlotWriter) -> None:
        """Write how ids are drawn behind `drawn`: the seed and the settings."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._cached = True
        self._done = cached - self.prompt.length + 1
        self._take_in(frames)
        self._ended = self._ended or ended

    def _take_in(self, arrays: Arrays) -> None:
        rows = zip(arrays[TOKEN].tolist(), arrays[BETWEEN], arrays[SILENT].tolist(), strict=True)
        for token, between, silent in rows:
            self._frames.append((token, between, silent))
            self._drawn += [one for one in between.tolist() if one != NO_ID]
            self._drawn += [] if silent else [self._ids.first + token]

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        first, self._taken = self._taken, self._taken + count
        tokens, between, silent = zip(*self._frames[first : self._taken], strict=True)
        return {
            TOKEN: np.array(tokens, np.int16),
            BETWEEN: np.stack(between).astype(np.int32),
            SILENT: np.array(silent, np.uint8),
        }, ()

    def said(self) -> tuple[SaidText, ...]:
        """See TalkerStream; a character comes with the last of its ids."""
        found = []
        for at in range(self._heard, self._taken):
            _, between, _ = self._frames[at]
            ids = [one for one in between.tolist() if one != NO_ID]
            last = self._ended and at == len(self._frames) - 1
            if text := self._utf8.decode(self._spelled(ids), final=last):
                found.append(SaidText(self._characters, text, at / self._rate_hz))
                self._characters += len(text)
        self._heard = self._taken
        return tuple(found)

    def evict(self) -> None:
        self._cached = self._staged = False
        self._done = len(self._drawn)
