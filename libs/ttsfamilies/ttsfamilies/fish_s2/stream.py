"""One request of Fish Audio S2 on the host: a step a frame, batch behind batch in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.base.talker.passages import PASSAGE, PassageStream
from ttsfamilies.base.talker.streams import Plan, SlotWriter
from ttsfamilies.fish_s2.config import WINDOW
from ttsfamilies.fish_s2.request import Batch, FishPrepared

# Instead of a code that repetition is looked for among.
NO_CODE: Final = -1


class FishStream(PassageStream):
    """See TalkerStream. A passage is a batch, and stands behind all before it and their frames."""

    def __init__(self, prepared: FishPrepared) -> None:
        c = prepared.config
        self.frame = MappingProxyType({"codes": Field((c.codebooks,), "i2", c.codes)})
        super().__init__(prepared.positions)
        self._prepared = prepared
        self._codes: list[Array] = []
        self._firsts = [0]  # of each batch so far, its first frame
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

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._codes = list(arrays["codes"].astype(np.int64))
        self._firsts = np.searchsorted(arrays[PASSAGE], range(self._at + 1)).tolist()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._filled = cached
        self._codes.extend(frames["codes"].astype(np.int64))
        super().accept(cached, frames, ended)

    def _next(self) -> None:
        filled = self._filled if self._cached else 0
        super()._next()
        self._firsts.append(self._begun)
        self.held = filled

    def evict(self) -> None:
        super().evict()
        self.held = 0

    def inputs(self, plan: Plan) -> Arrays:
        if plan.decode:
            return {"text": np.full(1, FRAME), "codes": self._codes[-1][None]}
        text, codes = zip(*self._positions(), strict=True)
        at = slice(plan.start, plan.end)
        return {"text": np.concatenate(text)[at], "codes": np.concatenate(codes)[at]}

    def _positions(self) -> list[tuple[Array, Array]]:
        """Of each batch so far, its own and its frames'."""
        found = []
        ends = [*self._firsts[1:], len(self._codes)]
        for batch, first, end in zip(self._passages, self._firsts, ends, strict=False):
            found.append((batch.text, batch.codes))
            if end > first:
                found.append((np.full(end - first, FRAME), np.stack(self._codes[first:end])))
        return found

    def stage(self, write: SlotWriter) -> None:
        if self._staged:
            return
        self._staged = True
        spoken = self._codes[self._begun :]
        write("codes", spoken[-1] if spoken else np.zeros(self._prepared.config.codebooks))
        write("recent", self._recent(spoken))
        write("made", len(spoken))
        write("frame", self.frames)
        write("over", 0)
        write("seed", self._prepared.request.seed)
        for name, value in asdict(self._prepared.drawing).items():
            write(name, value)

    @staticmethod
    def _recent(spoken: Sequence[Array]) -> Array:
        """Semantic codes of the batch's last frames, the very first one never."""
        known = [int(codes[0]) for codes in spoken[1:]][-WINDOW:]
        return np.array([NO_CODE] * (WINDOW - len(known)) + known, np.int64)
