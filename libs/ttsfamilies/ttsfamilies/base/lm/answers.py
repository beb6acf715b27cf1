"""Answers: ids of a language model, some of which are sound and the others text.

A frame is a code of sound, and with it travel the ids that came between it and the frame before
it (docs/decisions/spoken-turns.md). They are the device's alone until the frame is whole: a
stream whose cache was taken away draws them again, with the same noise. Where too many come
without sound, or the answer ends behind some, they travel with a frame of silence.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import FLAG, SILENT, Array, Arrays, Field
from ttscommon.wire.messages import SaidText, SpeechRequest
from ttsfamilies.base.lm.request import Drawing, tell
from ttsfamilies.base.lm.stepped import DrawnStep, LanguageModel
from ttsfamilies.base.runners.computation import Rows, SlotTensors
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import NUMBER, REAL
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


class Answerable(Protocol):
    """A request whose answer is drawn so."""

    @property
    def request(self) -> SpeechRequest: ...
    @property
    def drawing(self) -> Drawing: ...


class AnswerStream(LmStream):
    """A text of one passage, of which ids are counted; see LmStream. Subclasses say what a prompt's
    positions hold; of a prompt, a question, they say the `keys` (see TalkerStream.prefix).
    """

    replay: ClassVar[Mapping[str, Field]] = REPLAY

    def __init__(
        self,
        asked: Answerable,
        ids: AnswerIds,
        spelled: Callable[[Sequence[int]], bytes],
        rate_hz: float,
    ) -> None:
        """spelled: ids between frames as UTF-8, without those that are no text."""
        super().__init__()
        self._asked = asked
        self.frame = frame_of(ids)
        self._ids, self._spelled, self._rate_hz = ids, spelled, rate_hz
        self._heard = self._characters = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def prefix(self) -> Sequence[bytes]:
        return self._passages[0].keys()

    @property
    def extent(self) -> int:
        """Most answers are a fraction of what they may be."""
        if self._at >= len(self._passages):
            return 0
        return self.length + self.passage.frames // 4

    @property
    def answered(self) -> Array:
        """Ids of all frames so far, [ids] int64."""
        books = self.books
        sounds = np.where(books[SILENT] > 0, NO_ID, self._ids.first + books[TOKEN].astype(np.int64))
        ids = np.concatenate([books[BETWEEN], sounds[:, None]], 1).reshape(-1)
        return ids[ids != NO_ID]

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
        tell(write, self._asked.request.seed, self._asked.drawing)

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


# Per slot; subclasses may have more.
STATE: Final[Mapping[str, Field]] = {
    **dict.fromkeys(("step", "drawn", "over", "filled", "most", "seed", "top_k"), NUMBER),
    **dict.fromkeys(("temperature", "top_p"), REAL),
    BETWEEN: Field((MOST_BETWEEN,), "i8"),
}


class AnsweringModel(LanguageModel):
    """Subclasses have `ids` and `noise`. Their slots have STATE, and their streams are
    AnswerStreams. Answers are bounded by their ids, and repeat themselves rightly.
    """

    pauses = True  # of a text that is no speech there are none to make
    signs = None
    ids: AnswerIds

    def choose(
        self, logits: Tensor, noise: Noise, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Ids [rows], and whether each row's logits are finite."""
        return draw_ids(logits, noise, 0, Settings.of(old))

    def _ends(self, chosen: Tensor) -> Tensor:
        found = torch.zeros_like(chosen, dtype=torch.bool)
        for end in self.ids.ends:
            found = found | (chosen == end)
        return found

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        noise = self.noise(old["seed"], old["step"])
        chosen, finite = self.choose(self._net.logits(hidden), noise, old)
        code, stops = chosen - self.ids.first, self._ends(chosen)
        sound = ~stops & (code >= 0) & (code < self.ids.codes)
        other = ~stops & ~sound
        at = torch.arange(MOST_BETWEEN, device=chosen.device) == old["filled"][:, None]
        between = torch.where(at & other[:, None], chosen[:, None], old[BETWEEN])
        filled = old["filled"] + other
        ended = stops | (old["step"] + 1 >= old["most"])
        silent = ~sound & ((other & (filled == MOST_BETWEEN)) | (ended & (filled > 0)))
        gained = sound | silent
        moved = {
            "step": old["step"] + 1,
            "drawn": chosen,
            "filled": filled.masked_fill(gained, 0),
            BETWEEN: between.masked_fill(gained[:, None], NO_ID),
        }
        frames = {
            TOKEN: code.masked_fill(~sound, 0).to(torch.int16),
            BETWEEN: between.to(torch.int32),
            SILENT: silent.to(torch.uint8),
        }
        return DrawnStep(moved, frames, gained, ended, finite)
