"""One request of Chatterbox on the host: a step a token, and sentences that are given out whole.

A sentence's tokens wait until it has all of them, because its frames say how many follow (record
125); where the codec decodes on a grid, they are given out as they are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.talker.lmstream import ENDLESS, PASSAGE, LmStream
from ttsfamilies.base.talker.lmstream import REPLAY as PASSAGE_REPLAY
from ttsfamilies.base.talker.prefixes import keys, of_lanes
from ttsfamilies.base.talker.streams import SlotWriter, Taken
from ttsfamilies.chatterbox.config import CODES, IDS, SILENCE
from ttsfamilies.chatterbox.net import SPEECH, TEXT, UNTOLD
from ttsfamilies.chatterbox.request import ChatterboxPrepared, begun

LEFT: Final = "left"
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({**PASSAGE_REPLAY, LEFT: Field((), "i4")})
# Instead of an id: the one that the slot's last step drew.
DRAWN: Final = -2
UNKNOWN: Final = -1


class ChatterboxStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"token": Field((), "i2", CODES)})

    def __init__(self, prepared: ChatterboxPrepared, *, whole: bool) -> None:
        """whole: sentences are given out at once."""
        super().__init__(prepared.most_frames)
        self._prepared, self._whole, self._tail = prepared, whole, prepared.sizes.tail
        self._given = 0  # frames that may be taken, and those that were restored
        self._ends: list[int] = []  # of sentences, as the first frame behind each
        self._left = UNKNOWN  # tokens behind the last that is in the books
        self._promised = 0  # tokens of the present sentence, where the log has told of them
        known = prepared.conditions
        self._keys = of_lanes(*[keys(known, len(known.kind))] * self.lanes)

    @property
    def lanes(self) -> int:
        return self._prepared.lanes

    @property
    def frames(self) -> int:
        return self._given

    @property
    def _limit(self) -> int:
        return self._promised or super()._limit

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def restore(self, arrays: Arrays) -> None:
        self._left = int(arrays[LEFT][-1])
        super().restore(arrays)

    def rewind(self, frames: int) -> None:
        """Where a sentence is known as a whole, its length stands."""
        if frames >= self._given:
            self._evict()
            return
        self._left = int(self._lefts(np.array([frames - 1]))[0])
        self._ends = self._ends[: 1 + int(np.searchsorted(self._ends, frames - 1, side="right"))]
        super().rewind(frames)

    def _resume(self) -> None:
        super()._resume()
        self._given, self._promised, left = self._frames, 0, self._left
        if left < 0:
            return
        if left > self._tail:
            self._promised = self._frames - self._begun + left - self._tail
        else:
            self._end(left)

    def _next(self) -> None:
        self._end(self._tail)

    def _end(self, silence: int) -> None:
        """So many tokens of silence, and the sentence is over."""
        if silence:
            of, tokens = np.full(silence, self._at, np.int32), np.full(silence, SILENCE, np.int16)
            self._books.append({"token": tokens, PASSAGE: of})
            self._frames += silence
        self._ends.append(self._frames)
        self._given, self._promised = self._frames, 0
        super()._next()

    def _settle(self) -> None:
        if self._frames - self._begun >= (self._promised or ENDLESS):
            self._next()
        super()._settle()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        super().accept(cached, frames, ended)
        if self._begun < self._frames and self._frames >= self._most:
            self._next()
        if not self._whole:
            self._given = self._frames

    def take(self, count: int) -> Taken:
        left = self._lefts(np.arange(self._taken, self._taken + count))
        taken = super().take(count)
        return taken._replace(frames={**taken.frames, LEFT: left})

    def _lefts(self, at: Array) -> Array:
        """Of frames, how many of their sentence follow; UNKNOWN before its end is known."""
        ends = np.array([*self._ends, ENDLESS])
        left = ends[np.searchsorted(ends, at, side="right")] - 1 - at
        known = left < (ENDLESS if self._whole else self._tail)
        return np.where(known, left, UNKNOWN).astype(np.int32)

    def drawn(self) -> Arrays:
        row = np.zeros((1, self._prepared.conditions.row.shape[1]), np.float32)
        told = {"kind": SPEECH, "id": DRAWN, "at": self._done}
        return {**{name: np.full(1, value) for name, value in told.items()}, "row": row}

    def positions(self, lane: int) -> Arrays:
        voice, ids = self._prepared.conditions, self.passage.ids
        text = np.full(len(ids), UNTOLD) if lane else np.array(ids, np.int64)
        begins = begun(self._prepared.sizes.begins)
        said = np.concatenate([begins, self.spoken["token"]]).astype(np.int64)
        at = np.maximum(np.arange(len(said)) - len(begins) + 1, 0)
        behind = len(text) + len(said)
        parts = {
            "kind": (voice.kind, np.full(len(text), TEXT), np.full(len(said), SPEECH)),
            "id": (voice.id, text, said),
            "at": (voice.at, np.arange(len(text)), at),
            "row": (voice.row, np.zeros((behind, voice.row.shape[1]), np.float32)),
        }
        return {name: np.concatenate(part) for name, part in parts.items()}

    def begin(self, write: SlotWriter) -> None:
        said = self._frames - self._begun
        seen = np.zeros(IDS, np.uint8)
        seen[self.spoken["token"]] = 1
        write("seen", seen)
        write("said", said)
        write("frame", self._frames)
        write("least", self._promised or self._prepared.sizes.gpt)
        for name in ("drawn", "over"):
            write(name, 0)
        write("seed", self._prepared.request.seed)
        drawing = self._prepared.drawing
        for name in ("temperature", "top_k", "top_p", "penalty", "min_p", "weight"):
            write(name, getattr(drawing, name))
