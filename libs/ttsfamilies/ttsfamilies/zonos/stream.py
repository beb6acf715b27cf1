"""One request of Zonos on the host: a step a row, and the books of rows."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.staggered import counts
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.zonos.config import CODEBOOKS, END, IDS
from ttsfamilies.zonos.net import COLUMN
from ttsfamilies.zonos.request import STAGGER, ZonosPrepared, ZonosPrompt


def ends(rows: Array) -> Array:
    """Of rows [rows, CODEBOOKS] which is the last of its first codebook, [rows, 1] bool: an end
    that is drawn first of all is a code like others, as the model was trained.
    """
    found: Array = rows[:, :1] == END
    found[:1] = False
    return found


class ZonosStream(LmStream):
    """See TalkerStream. With guidance it has a second lane, which is told of the phones alone."""

    frame = MappingProxyType({"codes": Field((CODEBOOKS,), "i2", IDS)})

    def __init__(self, prepared: ZonosPrepared) -> None:
        super().__init__()
        self._prepared = prepared

    @property
    def lanes(self) -> int:
        return 1 if self._prepared.asked.guidance == 1.0 else 2

    def positions(self, lane: int) -> Arrays:
        prompt: ZonosPrompt = self.passage
        before, rows = prompt.ids.shape[1], self.spoken["codes"]
        none = np.zeros((before, CODEBOOKS), np.int64)
        codes = np.concatenate([none, prompt.columns, rows])
        ids = np.full(len(codes), COLUMN)
        ids[:before] = prompt.ids[lane]
        return {"id": ids, "codes": codes}

    def _last(self, count: int) -> Array:
        """Columns before the next row; the first of a passage stands twice there."""
        first = self.passage.columns
        return np.concatenate([first[:1], first, self.spoken["codes"]])[-count:]

    def begin(self, write: SlotWriter) -> None:
        before, last = self._last(2)
        write("before", before)
        write("last", last)
        for name, number in counts(ends(self.spoken["codes"]), STAGGER).items():
            write(name, number)
        write("limit", self.passage.limit)
        write("opening", self.passage.opening.reshape(-1))
        write("told", self._prepared.told.reshape(-1))
        tell(write, self._prepared.request.seed, self._prepared.asked)
