"""One request of Step-Audio 2 on the host: what its prompt holds, and what its draws are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.lm.answers import AnswerIds, AnswerStream
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.talker.lmstream import DRAWN
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.step_audio2.request import StepPrepared, StepPrompt

TOKEN_RATE_HZ: Final = 25.0


class StepStream(AnswerStream):
    """See AnswerStream."""

    def __init__(
        self, prepared: StepPrepared, ids: AnswerIds, tokenizer: Qwen2Tokenizer, vocabulary: int
    ) -> None:
        def spelled(found: Sequence[int]) -> bytes:
            texts = (i for i in found if i < prepared.control.audio_start)
            return b"".join(map(tokenizer.bytes_of, texts))

        super().__init__(ids, spelled, TOKEN_RATE_HZ)
        self._prepared, self._vocabulary = prepared, vocabulary

    def positions(self, lane: int) -> Arrays:
        del lane
        prompt: StepPrompt = self.passage
        width, told = prompt.rows.shape[1], prompt.ids
        ids = np.concatenate([told, self.answered])
        heard = np.zeros(len(ids))
        heard[np.flatnonzero(told == self._prepared.control.audio_patch)] = 1
        rows = np.zeros((len(ids), width))
        rows[heard > 0] = prompt.rows
        return _inputs(ids, heard, rows)

    def drawn(self) -> Arrays:
        width = self.passage.rows.shape[1]
        return _inputs(np.full(1, DRAWN), np.zeros(1), np.zeros((1, width)))

    def begin(self, write: SlotWriter) -> None:
        super().begin(write)
        ids = np.concatenate([self.passage.ids, self.answered])
        seen = np.zeros(self._vocabulary, np.uint8)
        seen[ids] = 1
        write("seen", seen)
        write("drawn", ids[-1])
        tell(write, self._prepared.request.seed, self._prepared.drawing)


def _inputs(ids: Array, heard: Array, rows: Array) -> Arrays:
    return {
        "id": ids.astype(np.int64),
        "heard": heard.astype(np.int64),
        "row": rows.astype(np.float32),
    }
