"""One request of a Piper voice on the host."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Field
from ttsfamilies.base.talker.segments import LENGTH, Grid, SegmentStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.piper.request import PiperPrepared, SaidSentence

BEGINS: Final = "begins"
_WORK: Final = 6
"""What a frame of a window costs, in positions of a pass over ids."""


def frame_of(latent: int) -> dict[str, Field]:
    """What the generator reads: a latent, and whether a sentence begins with it."""
    return {"z": Field((latent,), "f4"), BEGINS: Field((), "u1", 2)}


class PiperStream(SegmentStream):
    """See TalkerStream. reach: frames around a window that are computed with it."""

    def __init__(
        self,
        prepared: PiperPrepared,
        rate_hz: float,
        passes: int,
        grid: Grid,
        latent: int,
        reach: int,
    ) -> None:
        super().__init__(rate_hz, passes, grid)
        self.frame = MappingProxyType(frame_of(latent))
        self._prepared, self._reach = prepared, reach

    def work(self, frames: int) -> int:
        return _WORK * (frames + 2 * self._reach)

    def begin(self, write: SlotWriter) -> None:
        said: SaidSentence = self.passage
        write("ids", said.ids)
        write("stretch", (self._prepared.length / np.array(said.rates)).astype(np.float32))
        write(LENGTH, said.length)
        write("sentence", said.sentence)
        write("seed", self._prepared.request.seed)
        for name in ("speaker", "noise", "noise_w"):
            write(name, getattr(self._prepared, name))
