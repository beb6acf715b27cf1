"""One request of Tacotron 2 on the host: a step a frame, told of by where the attention is.

There is no cache, but what the LSTMs carry is rebuilt as one is: from the frames so far, a step
each, with the noise that each was made with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.talker.lmstream import REPLAY as PASSAGE_REPLAY
from ttsfamilies.base.talker.segments import LENGTH, PLACE
from ttsfamilies.base.talker.streams import Plan, Progress, SlotWriter
from ttsfamilies.base.talker.wordtimes import TimedStream
from ttsfamilies.tacotron2.request import Spelling, TacotronPrepared

BEGINS: Final = "begins"
"""Whether a frame is the first of its sentence."""
ENDS: Final = "ends"
"""Whether the gate said that it is the last one."""
_FLAG: Final = Field((), "u1", 2)
_ATTENDED: Final = MappingProxyType({PLACE: Field((), "i4"), ENDS: _FLAG})
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({**PASSAGE_REPLAY, **_ATTENDED})
# One step after the other, each of which has all of the weights to read.
_WORK: Final = 16


def frame_of(mels: int) -> dict[str, Field]:
    """What the codec reads: a mel frame as the talker is fed it, and where a sentence begins."""
    return {"mel": Field((mels,), "f4"), BEGINS: _FLAG}


class TacotronStream(TimedStream):
    """See TalkerStream."""

    replay = REPLAY

    def __init__(self, prepared: TacotronPrepared, rate_hz: float, mels: int) -> None:
        super().__init__(prepared.most_frames, rate_hz)
        self._prepared = prepared
        self.frame = MappingProxyType({**frame_of(mels), **_ATTENDED})

    def progress(self) -> Progress:
        told, places = super().progress(), self._times.places
        if self._at >= len(self._passages):
            return told
        said: Spelling = self.passage
        place = places[-1] if places else 0
        begun = (w.text for w in reversed(said.words) if w.start <= place and w.text)
        return told._replace(reached=places, word=next(begun, ""))

    def _resume(self) -> None:
        super()._resume()
        self._times.begin(np.maximum.accumulate(self.spoken[PLACE]).tolist())
        if self.books[ENDS][-1]:
            self._next()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        plan = super().plan(ahead, dry=dry)
        if plan is None or plan.decode:
            return plan
        return Plan(plan.start, plan.count, work=_WORK * plan.count)

    def positions(self, lane: int) -> Arrays:
        """Of each step the frame before it."""
        del lane
        spoken = self.spoken["mel"]
        return {"mel": np.concatenate([np.zeros((1, spoken.shape[1]), np.float32), spoken])}

    def begin(self, write: SlotWriter) -> None:
        said, spoken = self.passage, self.spoken["mel"]
        write("ids", said.ids)
        write(LENGTH, len(said.ids))
        write("begun", self._begun)
        write("mel", spoken[-1] if len(spoken) else np.zeros(spoken.shape[1], np.float32))
        write("over", 0)
        write("seed", self._prepared.request.seed)
        write("dropout", self._prepared.dropout)
        write("least", self._prepared.least)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        known = len(self._times.places)
        self._times.places += _onwards(self._times.places, frames[PLACE])
        over = ended or len(self._times.places) >= self._limit
        self._times.find(self.passage.words, self._begun, known, ended=over)
        super().accept(cached, frames, ended)


def _onwards(before: Sequence[int], places: Array) -> list[int]:
    """The furthest places so far: the attention may look back, time does not."""
    found: list[int] = np.maximum.accumulate([before[-1] if before else 0, *places]).tolist()
    return found[1:]
