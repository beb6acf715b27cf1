"""One request of CSM on the host: a step a frame."""

from __future__ import annotations

from collections.abc import Mapping

from ttscommon.wire.fields import Field
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.turns import TurnsStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.csm.request import CsmPrepared


class CsmStream(TurnsStream):
    """See TalkerStream."""

    def __init__(self, prepared: CsmPrepared, frame: Mapping[str, Field]) -> None:
        super().__init__(frame)
        self._prepared = prepared

    def begin(self, write: SlotWriter) -> None:
        write("codes", self.codes[-1] if self.frames else 0 * self.passage.codes[-1])
        write("frame", self.frames)
        tell(write, self._prepared.request.seed, self._prepared.drawing)
