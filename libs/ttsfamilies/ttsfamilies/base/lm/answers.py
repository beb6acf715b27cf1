"""The books of an answer: ids of a language model, some of which are sound and the others text.

A frame is a code of sound, and with it travel the ids that came between it and the frame before it
(docs/decisions/spoken-turns.md). They are the device's alone until the frame is whole: a stream
whose cache was taken away draws them again, with the same noise. Where too many come without
sound, or the answer ends behind some, they travel with a frame of silence.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SaidText
from ttscommon.wire.silence import FLAG, SILENT
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.streams import SlotWriter, Taken

TOKEN: Final = "token"
BETWEEN: Final = "between"
MOST_BETWEEN: Final = 32
NO_ID: Final = -1
REPLAY: Final[Mapping[str, Field]] = {BETWEEN: Field((MOST_BETWEEN,), "i4"), SILENT: FLAG}


class AnswerIds(NamedTuple):
    """Of a vocabulary: `codes` ids of sound, from `first` on, and those that end an answer."""

    first: int
    codes: int
    ends: tuple[int, ...]


def frame_of(ids: AnswerIds) -> dict[str, Field]:
    """What a vocoder reads of a frame."""
    return {TOKEN: Field((), "i2", ids.codes)}


class Question(Protocol):
    """What is prefilled before an answer's first id."""

    @property
    def length(self) -> int:
        """Positions."""

    @property
    def frames(self) -> int:
        """The most ids that may follow."""

    def keys(self) -> Sequence[bytes]:
        """See TalkerStream.prefix."""


class AnswerStream(LmStream):
    """A text of one passage, of which ids are counted; see LmStream. Subclasses say how ids are
    drawn (`tell`), and what a prompt's positions hold.
    """

    replay: ClassVar[Mapping[str, Field]] = REPLAY

    def __init__(
        self, ids: AnswerIds, spelled: Callable[[Sequence[int]], bytes], rate_hz: float
    ) -> None:
        """spelled: ids between frames as UTF-8, without those that are no text."""
        super().__init__()
        self.frame = frame_of(ids)
        self._ids, self._spelled, self._rate_hz = ids, spelled, rate_hz
        self._heard = self._characters = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def prefix(self) -> Sequence[bytes]:
        question: Question = self._passages[0]
        return question.keys()

    @property
    def extent(self) -> int:
        """Most answers are a fraction of what they may be."""
        if self._at >= len(self._passages):
            return 0
        question: Question = self.passage
        return question.length + question.frames // 4

    @property
    def answered(self) -> Array:
        """Ids of all frames so far, [ids] int64."""
        books = self.books
        sounds = np.where(books[SILENT] > 0, NO_ID, self._ids.first + books[TOKEN].astype(np.int64))
        ids = np.concatenate([books[BETWEEN], sounds[:, None]], 1).reshape(-1)
        found: Array = ids[ids != NO_ID]
        return found

    def _replayed(self) -> int:
        return len(self.answered)

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._said()

    def begin(self, write: SlotWriter) -> None:
        write(BETWEEN, np.full(MOST_BETWEEN, NO_ID, np.int64))
        write("step", self._done)
        write("most", self.passage.frames)
        for name in ("drawn", "filled"):
            write(name, 0)

    def take(self, count: int) -> Taken:
        return super().take(count)._replace(said=self._said())

    def _said(self) -> tuple[SaidText, ...]:
        """Text of the frames taken last; a character comes with the last of its ids."""
        found = []
        for at in range(self._heard, self._taken):
            ids = [one for one in self.books[BETWEEN][at].tolist() if one != NO_ID]
            last = self._at > 0 and at == self._frames - 1
            if text := self._utf8.decode(self._spelled(ids), final=last):
                found.append(SaidText(self._characters, text, at / self._rate_hz))
                self._characters += len(text)
        self._heard = self._taken
        return tuple(found)
