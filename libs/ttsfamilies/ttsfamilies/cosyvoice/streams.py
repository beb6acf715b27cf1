"""One request of CosyVoice on the host: a token a step, passage by passage or in turns with text.

The log says of each token which passage it is of, or, of a streamed text, how many times the model
had been given more text before it. A fill token is fed to nothing: text follows in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.lm.request import IdsPrompt, tell
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import LmStream, SequenceStream
from ttsfamilies.base.talker.streams import Progress, SlotWriter
from ttsfamilies.cosyvoice.request import (
    MOST_RATIO,
    Block,
    Blocks,
    CosyPrepared,
    MoreText,
    common,
)

TOKEN: Final = MappingProxyType({"token": Field((), "i2", TOKENS)})
# Tokens that a draw is held against, and what stands for none.
WINDOW: Final = 10
NONE: Final = -1
_ALWAYS: Final = 1 << 40


def _begin(
    write: SlotWriter, prepared: CosyPrepared, drawn: Sequence[int], draw: int, early: int
) -> None:
    """See `tell`. drawn: ids of the stream's sequence so far. draw: the next one's number. early:
    draws that may not be the end.
    """
    recent = np.full(WINDOW, NONE, np.int64)
    last = np.array(drawn[-WINDOW:], np.int64)
    recent[WINDOW - len(last) :] = last
    write("recent", recent)
    write("draw", draw)
    write("early", early)
    tell(write, prepared.request.seed, prepared.drawing)


class PassagesStream(LmStream):
    """A text whose passages are known before their speech."""

    frame = TOKEN

    def __init__(self, prepared: CosyPrepared, speech: int) -> None:
        """speech: the id of a position that holds the first token of speech."""
        super().__init__(prepared.most_frames)
        self._prepared, self._speech = prepared, speech

    def prefix(self) -> Sequence[bytes]:
        prompt: IdsPrompt = self.passage
        return prompt.keys()

    def positions(self, branch: int) -> Arrays:
        said = self.spoken["token"].astype(np.int64) + self._speech
        return {"id": np.concatenate([self.passage.array, said])}

    def begin(self, write: SlotWriter) -> None:
        said = self.spoken["token"].tolist()
        # The end of each passage was a draw as well.
        draw, early = self.frames + self._at, max(0, self.passage.least - len(said))
        write("token", said[-1] if said else 0)
        _begin(write, self._prepared, said, draw, early)


class InterleavedStream(SequenceStream):
    """A text that is streamed: its tokens and those of speech take turns. A passage is a block."""

    frame = TOKEN

    def __init__(self, prepared: CosyPrepared, speech: int, fill: int) -> None:
        """speech: see PassagesStream. fill: the id that asks for more text."""
        super().__init__(prepared.most_frames)
        self._prepared, self._speech, self._fill = prepared, speech, fill
        self._blocks = Blocks(prepared.opening)
        self._text = 0  # tokens of it so far

    @property
    def extent(self) -> int:
        """Not known while text may follow."""
        return 0

    def progress(self) -> Progress:
        """All blocks are one utterance."""
        return Progress()

    def leave(self) -> bool:
        return False

    @property
    def passage(self) -> Block:
        """The one that is spoken, the last with as many tokens as its text may come to."""
        block: Block = self._passages[self._at]
        return block if block.limit is not None else block._replace(limit=MOST_RATIO * self._text)

    def feed(self, units: Sequence[MoreText], *, final: bool) -> None:
        for unit in units:
            self._text += len(unit.ids)
            self._blocks.feed(unit.ids, final=False)
        if final:
            self._blocks.feed((), final=True)
        super().feed(self._blocks.known[len(self._passages) :], final=final)

    def prefix(self) -> Sequence[bytes]:
        first = np.array(self._passages[0].ids, np.int64)
        return keys((first,), min(len(first), common(self._prepared.opening)))

    def positions(self, branch: int) -> Arrays:
        ids: list[Array] = []
        for block, tokens in self.laid_out("token"):
            ids += [np.array(block.ids, np.int64), tokens.astype(np.int64) + self._speech]
        return {"id": np.concatenate(ids)}

    def drawn(self) -> Arrays:
        return {"id": self.spoken["token"][-1:].astype(np.int64) + self._speech}

    def begin(self, write: SlotWriter) -> None:
        said = self.spoken["token"]
        early = 0 if self._passages[self._at].limit is None else _ALWAYS
        write("token", said[-1] if len(said) else 0)
        _begin(write, self._prepared, self._recent(), self.frames + self._at, early)

    def _recent(self) -> list[int]:
        """What was drawn last, in order, with a fill token between blocks."""
        found: list[int] = []
        for at, (_, tokens) in enumerate(self.laid_out("token")):
            found = [*found, *[self._fill] * bool(at), *tokens.tolist()][-WINDOW:]
        return found
