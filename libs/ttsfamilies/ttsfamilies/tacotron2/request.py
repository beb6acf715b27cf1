"""A request as Tacotron 2 takes it, and the sentences of its text. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.text.frontend import Word
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.piper.phones import Sentence, Sentences, ids_of
from ttsfamilies.tacotron2.letters import TABLE

MOST_IDS: Final = 192
"""Of a sentence, about 13 s, as long as any that the model was trained on; a longer one is spoken
in parts.
"""
MOST_FRAMES: Final = 2000
"""Of a sentence: the reference's limit."""
# At its slowest.
_LETTER_S, _BEYOND_S = 0.15, 2.0
DROPOUT: Final = "prenet_dropout"
THRESHOLD: Final = "gate_threshold"
PARAMETERS: Final = (
    Parameter(
        DROPOUT,
        "number",
        0.5,
        "Share of the prenet that is dropped; the model was trained with the default, and may not"
        " end without.",
        0.0,
        0.9,
    ),
    Parameter(THRESHOLD, "number", 0.5, "How sure of its end a sentence has to be.", 0.01, 0.99),
)


class Spelling(NamedTuple):
    """A sentence, or a part of one, by its letters."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    frames: int = MOST_FRAMES

    @property
    def length(self) -> int:
        """Steps before the first frame: the one that gives it."""
        return 1

    @property
    def longest_s(self) -> float:
        """See LmStream."""
        return _BEYOND_S + len(self.ids) * _LETTER_S


class TacotronPrepared(Prepared):
    """A request, and the sentences of its text: the encoder reads all of one at once."""

    def __init__(self, request: SpeechRequest, sentences: Sentences, frames: int) -> None:
        """frames: of a sentence, at the most."""
        self.request, self._frames = request, frames
        asked = completed(PARAMETERS, request.extra_params)
        threshold = float(asked[THRESHOLD])
        self.dropout = float(asked[DROPOUT])
        self.least = math.log(threshold / (1 - threshold))  # what the gate's logit has to exceed
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self._reader = Reader(sentences)

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Spelling]:
        """See Prepared."""
        for found in self._reader.read(pieces, final=final):
            assert not isinstance(found, Pause), "pauses are made for this family"
            assert isinstance(found, Sentence)
            for ids, words in ids_of(found, TABLE, MOST_IDS):
                if ids:
                    yield Spelling(ids, words, self._frames)
