"""One request of Orpheus on the host: seven steps a frame, and the books of whole frames.

Ids of a frame that is not whole are the device's alone: a stream whose cache was taken away draws
them again, with the same noise.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.talker.lmstream import DRAWN, LmStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.orpheus.config import CODES, END_SPEECH, FIRST_AUDIO, SLOTS
from ttsfamilies.orpheus.request import OrpheusPrepared

# Ids that may be drawn, from the end of speech to the last audio id.
CHOICES: Final = FIRST_AUDIO - END_SPEECH + SLOTS * CODES
_OFFSETS: Final = FIRST_AUDIO + CODES * np.arange(SLOTS, dtype=np.int64)


def ids_of(frames: Array) -> Array:
    """Codes [frames, 7] -> ids [frames * 7] int64."""
    return (frames.astype(np.int64) + _OFFSETS).reshape(-1)


class OrpheusStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"codes": Field((SLOTS,), "i2", CODES)})
    steps = SLOTS

    def __init__(self, prepared: OrpheusPrepared) -> None:
        super().__init__(prepared.most_frames)
        self._prepared = prepared

    def positions(self, lane: int) -> Arrays:
        del lane
        told = np.array(self.passage.ids, np.int64)
        return {"id": np.concatenate([told, ids_of(self.spoken["codes"])])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN, np.int64)}

    def begin(self, write: SlotWriter) -> None:
        seen = np.zeros(CHOICES, np.uint8)
        seen[ids_of(self.spoken["codes"]) - END_SPEECH] = 1
        write("seen", seen)
        write("codes", np.zeros(SLOTS, np.int64))
        write("step", SLOTS * self.frames)
        write("drawn", 0)
        tell(write, self._prepared.request.seed, self._prepared.drawing)
