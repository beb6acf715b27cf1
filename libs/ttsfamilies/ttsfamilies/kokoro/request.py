"""A request as Kokoro takes it, and the segments that its text is spoken in. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.text.breaths import Breaths, Spoken
from ttsfamilies.base.text.frontend import Word
from ttsfamilies.base.text.misaki import TOKENS
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.kokoro.phones import Read, spoken
from ttsfamilies.kokoro.sizes import style_row

SPEEDS: Final = (0.5, 2.0)
_SILENCE: Final = 0


@dataclass(frozen=True, eq=False)
class Segment:
    """ids with silence at both ends. pace: how many times as fast each is spoken. row: of the
    voice's table, and the prosody's part of it.
    """

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    pace: Array
    row: int
    style: Array
    frames: int = ENDLESS

    @property
    def length(self) -> int:
        return len(self.ids)


class KokoroPrepared(Prepared):
    """A request whose voice is known. Its text is read utterance by utterance, and cut."""

    def __init__(
        self,
        request: SpeechRequest,
        read: Read,
        pack: Array,
        vocabulary: Mapping[str, int],
        pace: float,
    ) -> None:
        """pack: a voice's table. vocabulary: the checkpoint's ids of symbols. pace: the voice's."""
        self.request, self._pace = request, request.speed * pace
        self._reader, self._pack, self._vocabulary = Reader(read), pack, vocabulary
        self._breaths = Breaths()

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Segment]:
        """See Prepared."""
        for found in self._reader.read(pieces, final=final):
            if not isinstance(found, Pause):
                yield from map(self._segment, self._breaths.cut(spoken(found)))

    def _segment(self, part: Spoken) -> Segment:
        """Symbols beside the vocabulary are left out, but count for the row, as in the package."""
        row = style_row(len(part.symbols), len(self._pack))
        ids, at = [_SILENCE], []
        for symbol in part.symbols:
            at.append(len(ids))
            ids += [self._vocabulary[symbol]] if symbol in self._vocabulary else []
        at.append(len(ids))
        words = tuple(word._replace(start=at[word.start], end=at[word.end]) for word in part.words)
        pace = np.full(len(ids) + 1, self._pace, np.float32)
        for word in words:
            pace[word.start : word.end] *= word.rate
        style = self._pack[row, self._pack.shape[1] // 2 :]
        return Segment((*ids, _SILENCE), words, pace, row, style)


def checked(vocabulary: Mapping[str, int]) -> Mapping[str, int]:
    """A checkpoint's vocabulary; raises CheckpointError for one that English cannot be said in."""
    missing = "".join(symbol for symbol in TOKENS if symbol not in vocabulary)
    if missing:
        raise CheckpointError(f"config.json: the vocabulary lacks {missing!r}")
    return vocabulary
