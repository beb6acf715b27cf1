"""One request of Step-Audio 2 on the host: what its prompt holds, and what its draws are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.lm.answers import DRAWN, AnswerIds, AnswerStream
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.talker.streams import Plan, SlotWriter
from ttsfamilies.step_audio2.request import StepPrepared, StepPrompt

TOKEN_RATE_HZ: Final = 25.0


class StepStream(AnswerStream[StepPrompt]):
    """See AnswerStream."""

    def __init__(
        self, prepared: StepPrepared, ids: AnswerIds, tokenizer: Qwen2Tokenizer, vocabulary: int
    ) -> None:
        def spelled(found: Sequence[int]) -> bytes:
            texts = (i for i in found if i < prepared.control.audio_start)
            return b"".join(map(tokenizer.bytes_of, texts))

        super().__init__(ids, spelled, TOKEN_RATE_HZ)
        self._prepared, self._vocabulary = prepared, vocabulary

    def inputs(self, plan: Plan) -> Arrays:
        width, told = self.prompt.rows.shape[1], self.prompt.ids
        if plan.decode:
            return _inputs(np.full(1, DRAWN), np.zeros(1), np.zeros((1, width)))
        ids = np.concatenate([told, np.array(self.drawn, np.int64)])
        heard = np.zeros(len(ids))
        heard[np.flatnonzero(told == self._prepared.control.audio_patch)] = 1
        rows = np.zeros((len(ids), width))
        rows[heard > 0] = self.prompt.rows
        part = slice(plan.start, plan.end)
        return _inputs(ids[part], heard[part], rows[part])

    def begin(self, write: SlotWriter) -> None:
        seen = np.zeros(self._vocabulary, np.uint8)
        seen[self.prompt.ids] = seen[self.drawn] = 1
        write("seen", seen)
        write("drawn", self.drawn[-1] if self.drawn else int(self.prompt.ids[-1]))
        write("seed", self._prepared.request.seed)
        for name, value in asdict(self._prepared.drawing).items():
            write(name, value)


def _inputs(ids: Array, heard: Array, rows: Array) -> Arrays:
    return {
        "id": ids.astype(np.int64),
        "heard": heard.astype(np.int64),
        "row": rows.astype(np.float32),
    }
