"""One request of Higgs Audio on the host: a step a row, logged as it was drawn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ttscommon.wire.fields import Array, Field
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.staggered import counts, is_over
from ttsfamilies.base.lm.turns import FRAME, TurnsStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.higgs_audio.request import MOST_REMEMBERED, HiggsPrepared


class HiggsStream(TurnsStream):
    """See TalkerStream. A frame of the log is a row."""

    def __init__(self, prepared: HiggsPrepared, frame: Mapping[str, Field]) -> None:
        super().__init__(frame)
        self._prepared, self._config = prepared, prepared.config

    @property
    def _ends(self) -> Array:
        """[rows, codebooks] bool: where a codebook is over."""
        ends: Array = self.codes == self._config.end
        return ends

    def _resume(self) -> None:
        super()._resume()
        if is_over(self._ends, self._config.stagger):
            self._next()

    def begin(self, write: SlotWriter) -> None:
        recent = self._recent()
        write("codes", recent[-1])
        write("recent", recent.reshape(-1))
        for name, value in counts(self._ends, self._config.stagger).items():
            write(name, value)
        tell(write, self._prepared.request.seed, self._prepared.drawing)

    def _recent(self) -> Array:
        """The last rows [MOST_REMEMBERED, codebooks], those of recordings too."""
        heard = self.passage.codes[self.passage.text == FRAME]
        none = np.full((MOST_REMEMBERED, self._config.codebooks), self._config.begin, np.int64)
        return np.concatenate([none, heard, self.codes])[-MOST_REMEMBERED:]
