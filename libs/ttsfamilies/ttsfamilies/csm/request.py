"""A request as CSM takes it, and its prompt: earlier turns and its own text. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.drawing import LayeredDrawing
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import Turn, TurnsPrepared
from ttsfamilies.csm.config import BEGIN_TEXT, END_CODE, END_TEXT, CsmGeneration

# The model often goes on in silence instead of ending: slow speech takes half of these.
_FRAMES_A_TOKEN, _FRAMES_BEYOND = 10, 25


def usual_drawing(d: CsmGeneration) -> LayeredDrawing:
    """The checkpoint's; `subtalker` is the depth transformer."""
    return LayeredDrawing(
        d.temperature * d.do_sample,
        d.top_k,
        d.top_p,
        d.depth_decoder_temperature * d.depth_decoder_do_sample,
        d.depth_decoder_top_k,
        d.depth_decoder_top_p,
    )


class CsmPrepared(TurnsPrepared):
    """See TurnsPrepared."""

    def __init__(
        self,
        request: SpeechRequest,
        drawing: LayeredDrawing,
        turns: Sequence[Turn],
        tokenizer: TextTokenizer,
        codebooks: int,
        positions: int,
        most: int,
    ) -> None:
        """positions: of prompt and speech. most: frames, unless the request names a number."""
        super().__init__(request, turns, tokenizer, codebooks, positions)
        self.drawing, self._most = drawing, most

    def most_frames(self, tokens: int) -> int:
        usual = min(self._most, _FRAMES_BEYOND + _FRAMES_A_TOKEN * tokens)
        return self.request.sampling.max_new_tokens or usual

    def laid_out(self, text: str) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        own = Turn(self.request.speaker, text, None)
        return self._positions_of(self._turns), self._positions_of([own])

    def _positions_of(self, turns: Iterable[Turn]) -> tuple[Array, Array]:
        """Each turn's text and then, if it sounded, its frames and the end of them."""
        end = np.full((1, self._codebooks), END_CODE, np.int64)
        parts = [self.said(())]
        for turn in turns:
            words = self._tokenizer.ids(f"[{turn.speaker}]{turn.text}")
            parts.append(self.said((BEGIN_TEXT, *words, END_TEXT)))
            if turn.codes is not None:
                parts.append(self.sounded(np.concatenate([turn.codes, end])))
        ids, codes = zip(*parts, strict=True)
        return np.concatenate(ids), np.concatenate(codes)
