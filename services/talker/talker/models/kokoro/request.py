"""What a request may ask of Kokoro, and the segments that its text is spoken in. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from talker.family.base import Prepared
from talker.family.segments import ENDLESS
from talker.text.breaths import Breaths
from talker.text.frontend import Word
from talker.text.misaki import TOKENS, Tokens, tokens_of
from talker.text.reader import Phonetise, Reader
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.kokoro import style_row
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece

SPEEDS: Final = (0.5, 2.0)


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
    frames: int = field(default=ENDLESS)

    @property
    def length(self) -> int:
        return len(self.ids)


class KokoroPrepared(Prepared):
    """A request whose voice is known. Its text is read utterance by utterance, and cut."""

    def __init__(
        self, request: SpeechRequest, phones: Phonetise, pack: Array, symbols: Mapping[int, int]
    ) -> None:
        """pack: a voice's table. symbols: the checkpoint's ids of the frontend's tokens."""
        self.request = request
        self._reader, self._pack, self._symbols = Reader(phones), pack, symbols
        self._breaths = Breaths()

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Segment]:
        """See Prepared."""
        for found in self._reader.read(pieces, final=final):
            if not isinstance(found, Pause):
                yield from map(self._segment, self._breaths.cut(tokens_of(found)))

    def _segment(self, tokens: Tokens) -> Segment:
        row = style_row(len(tokens.ids) - 2, len(self._pack))
        pace = np.full(len(tokens.ids), self.request.speed, np.float32)
        for word in tokens.words:
            pace[word.start : word.end] *= word.rate
        ids = tuple(self._symbols[token] for token in tokens.ids)
        style = self._pack[row, self._pack.shape[1] // 2 :]
        return Segment(ids, tokens.words, pace, row, style)


def symbols_of(vocabulary: Mapping[str, int]) -> dict[int, int]:
    """Ids of a checkpoint for the frontend's tokens; raises CheckpointError where one is missing."""
    missing = "".join(symbol for symbol in TOKENS if symbol not in vocabulary)
    if missing:
        raise CheckpointError(f"config.json: the vocabulary lacks {missing!r}")
    return {0: 0, **{token: vocabulary[symbol] for symbol, token in TOKENS.items()}}
