"""One request of Fish Audio S2 on the host: a step a frame, batch behind batch in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.base.talker.lmstream import PASSAGE, LmStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.fish_s2.config import WINDOW
from ttsfamilies.fish_s2.request import Batch, FishPrepared

# Instead of a code that repetition is looked for among.
NO_CODE: Final = -1


class FishStream(LmStream):
    """See TalkerStream. A passage is a batch, and stands behind all before it and their frames."""

    def __init__(self, prepared: FishPrepared) -> None:
        c = prepared.config
        self.frame = MappingProxyType({"codes": Field((c.codebooks,), "i2", c.codes)})
        super().__init__(prepared.positions)
        self._prepared = prepared
        self._filled = 0  # positions in the cache

    @property
    def length(self) -> int:
        before: int = sum(batch.length for batch in self._passages[: self._at + 1])
        return before + self._begun

    @property
    def extent(self) -> int:
        """Of the whole conversation. Most speech takes half of the frames that it may come to."""
        found: int = sum(batch.length + batch.frames // 2 for batch in self._passages)
        return found

    def prefix(self) -> Sequence[bytes]:
        first: Batch = self._passages[0]
        return first.keys()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._filled = cached
        super().accept(cached, frames, ended)

    def _next(self) -> None:
        filled = self._filled if self._cached else 0
        super()._next()
        self.held = filled

    def _evict(self) -> None:
        super()._evict()
        self.held = 0

    def positions(self, lane: int) -> Arrays:
        """Of each batch so far, its own and its frames'."""
        del lane
        text, codes, spoken = [], [], self.books["codes"].astype(np.int64)
        for at, batch in enumerate(self._passages[: self._at + 1]):
            frames = spoken[self.books[PASSAGE] == at]
            text += [batch.text, np.full(len(frames), FRAME)]
            codes += [batch.codes, frames]
        return {"text": np.concatenate(text), "codes": np.concatenate(codes)}

    def begin(self, write: SlotWriter) -> None:
        spoken = self.spoken["codes"]
        write("codes", spoken[-1] if len(spoken) else np.zeros(self._prepared.config.codebooks))
        write("recent", self._recent(spoken))
        write("made", len(spoken))
        write("frame", self.frames)
        tell(write, self._prepared.request.seed, self._prepared.drawing)

    @staticmethod
    def _recent(spoken: Array) -> Array:
        """Semantic codes of the batch's last frames, the very first one never."""
        none = np.full(WINDOW, NO_CODE, np.int64)
        return np.concatenate([none, spoken[1:, 0]])[-WINDOW:]
