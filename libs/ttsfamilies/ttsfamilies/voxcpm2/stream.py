"""One request of VoxCPM2 on the host: a patch a step, passage by passage.

The log says of each patch whether its passage ends with it, which no patch tells by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.fields import Arrays, Field
from ttsfamilies.base.talker.lmstream import PASSAGE, LmStream
from ttsfamilies.base.talker.prefixes import keys
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.voxcpm2.request import Layout, VoxcpmPrepared

LAST: Final = MappingProxyType({"last": Field((), "u1", 2)})


class VoxcpmStream(LmStream):
    """See TalkerStream."""

    def __init__(self, prepared: VoxcpmPrepared, patch: Field) -> None:
        super().__init__(prepared.most_frames)
        self._prepared, self._patch = prepared, patch
        self._laid: tuple[int, Layout] | None = None

    @property
    def frame(self) -> Mapping[str, Field]:  # type: ignore[override]
        return {"patch": self._patch, **LAST}

    @property
    def passage(self) -> Any:
        """The one that is spoken, laid out behind what was said before it."""
        if self._laid is None or self._laid[0] != self._at:
            self._laid = self._at, self._layout()
        return self._laid[1]

    def _layout(self) -> Layout:
        told = self._passages[self._at]
        if not self._at:
            return self._prepared.laid_out(told)
        said = self.books["patch"][self.books[PASSAGE] == 0]
        return self._prepared.laid_out(told, self._passages[0], said if len(said) else None)

    def prefix(self) -> Sequence[bytes]:
        laid, adapter = self.passage, self._prepared.request.adapter
        whole = b"" if adapter is None else bytes.fromhex(adapter.digest)
        return keys((laid.id, laid.audio, laid.patch), laid.common, whole)

    def _resume(self) -> None:
        super()._resume()
        if self.books["last"][-1]:
            self._next()

    def positions(self, lane: int) -> Arrays:
        del lane
        laid, spoken = self.passage, self.spoken["patch"]
        told = {
            "id": (laid.id, np.zeros(len(spoken), np.int64)),
            "patch": (laid.patch, spoken),
            "audio": (laid.audio, np.ones(len(spoken), np.int64)),
        }
        found = {name: np.concatenate(parts) for name, parts in told.items()}
        if self._prepared.adapter is not None:
            found[ADAPTER] = np.full(len(found["id"]), self._prepared.adapter, np.int64)
        return found

    def begin(self, write: SlotWriter) -> None:
        spoken, prepared = self.spoken["patch"], self._prepared
        write("patch", spoken[-1] if len(spoken) else self.passage.patch[-1])
        write("frame", self.frames)
        write("said", len(spoken))
        write("over", 0)
        write("seed", prepared.request.seed)
        write("guidance", prepared.guidance)
        write("deviation", prepared.deviation)
        if prepared.adapter is not None:
            write(ADAPTER, prepared.adapter)
