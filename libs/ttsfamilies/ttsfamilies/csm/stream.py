"""One request of CSM on the host: a step a frame."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ttsfamilies.base.lm.turns import TurnsStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.csm.request import CsmPrepared


class CsmStream(TurnsStream):
    """See TalkerStream."""

    def __init__(self, prepared: CsmPrepared, codebooks: int) -> None:
        super().__init__(codebooks)
        self._prepared = prepared

    def begin(self, write: SlotWriter) -> None:
        last = self.codes[-1] if self.frames else np.zeros(self._codebooks, np.int64)
        write("codes", last)
        write("frame", self.frames)
        write("over", 0)
        write("seed", self._prepared.request.seed)
        for name, value in asdict(self._prepared.drawing).items():
            write(name, value)
