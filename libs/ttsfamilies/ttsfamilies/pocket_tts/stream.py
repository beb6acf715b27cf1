"""One request of Pocket TTS on the host: a step a frame, and how many are left behind the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.prefixes import keys
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.pocket_tts.request import LATENT, TEXT, PocketPrepared

# Frames that follow a frame once the end was seen; before that, none is known.
LEFT: Final = MappingProxyType({"left": Field((), "i2")})
UNKNOWN: Final = -1


class PocketStream(LmStream):
    """See TalkerStream."""

    def __init__(self, prepared: PocketPrepared, first: Array) -> None:
        """first: [values] float32, the latent before a passage's first."""
        super().__init__(prepared.most_frames)
        self._prepared, self._first = prepared, first
        self._latent = {"latent": Field(first.shape, "f4")}
        self._keys = keys(prepared.voice, len(prepared.voice.kind))

    @property
    def frame(self) -> Mapping[str, Field]:  # type: ignore[override]
        return {**self._latent, **LEFT}

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def _resume(self) -> None:
        super()._resume()
        if not self.books["left"][-1]:
            self._next()

    def positions(self, lane: int) -> Arrays:
        del lane
        voice, tokens = self._prepared.voice, np.array(self.passage.tokens, np.int64)
        spoken = np.concatenate([self._first[None], self.spoken["latent"]])
        width = max(spoken.shape[1], voice.row.shape[1])
        told = {
            "kind": (voice.kind, np.full(len(tokens), TEXT), np.full(len(spoken), LATENT)),
            "id": (voice.id, tokens, np.zeros(len(spoken), np.int64)),
            "row": (
                _widened(voice.row, width),
                np.zeros((len(tokens), width), np.float32),
                _widened(spoken, width),
            ),
        }
        return {name: np.concatenate(parts) for name, parts in told.items()}

    def begin(self, write: SlotWriter) -> None:
        spoken, drawing = self.spoken, self._prepared.drawing
        said = len(spoken["left"])
        write("latent", spoken["latent"][-1] if said else self._first)
        write("left", spoken["left"][-1] if said else UNKNOWN)
        write("frame", self.frames)
        write("said", said)
        write("over", 0)
        write("after", self.passage.after)
        write("seed", self._prepared.request.seed)
        write("deviation", drawing.deviation)
        write("threshold", drawing.threshold)


def _widened(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
