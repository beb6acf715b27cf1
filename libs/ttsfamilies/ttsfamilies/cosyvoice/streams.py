"""One request of CosyVoice on the host: a token a step, passage by passage or in turns with text.

The log says of each token which passage it is of, or, of a streamed text, how many times the model
had been given more text before it. A fill token is fed to nothing: text follows in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Final

import numpy as np

from ttscommon.wire.fields import Arrays, Field
from ttsfamilies.base.lm.texts import IdsPrompt
from ttsfamilies.base.talker.lmstream import PASSAGE, LmStream
from ttsfamilies.base.talker.prefixes import keys
from ttsfamilies.base.talker.streams import Plan, SlotWriter, Taken, TalkerStream
from ttsfamilies.cosyvoice.config import TOKENS, Block, Blocks, common
from ttsfamilies.cosyvoice.request import MOST_RATIO, CosyPrepared, MoreText

TOKEN: Final = MappingProxyType({"token": Field((), "i2", TOKENS)})
# Tokens that a draw is held against, and what stands for none.
WINDOW: Final = 10
NONE: Final = -1
_ALWAYS: Final = 1 << 40


def tell(
    write: SlotWriter, prepared: CosyPrepared, drawn: Sequence[int], draw: int, early: int
) -> None:
    """Tell a slot of its stream. drawn: ids of its sequence so far. draw: the next one's number.
    early: draws that may not be the end.
    """
    recent = np.full(WINDOW, NONE, np.int64)
    last = np.array(drawn[-WINDOW:], np.int64)
    recent[WINDOW - len(last) :] = last
    write("recent", recent)
    write("draw", draw)
    write("early", early)
    write("over", 0)
    write("seed", prepared.request.seed)
    for name, value in asdict(prepared.drawing).items():
        write(name, value)


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

    def positions(self, lane: int) -> Arrays:
        del lane
        said = self.spoken["token"].astype(np.int64) + self._speech
        return {"id": np.concatenate([self.passage.array, said])}

    def begin(self, write: SlotWriter) -> None:
        said = self.spoken["token"].tolist()
        # The end of each passage was a draw as well.
        draw, early = self.frames + self._at, max(0, self.passage.least - len(said))
        write("token", said[-1] if said else 0)
        tell(write, self._prepared, said, draw, early)


class InterleavedStream(TalkerStream):
    """A text that is streamed: one sequence, in which its tokens and those of speech take turns."""

    def __init__(self, prepared: CosyPrepared, speech: int, fill: int) -> None:
        """speech: see PassagesStream. fill: the id that asks for more text."""
        self._prepared, self._speech, self._fill = prepared, speech, fill
        self._blocks = Blocks(prepared.opening)
        self._text = 0  # tokens of it so far
        self._spoken: list[list[int]] = [[]]  # of each block
        self._ids: list[int] = []  # of all positions whose inputs are known
        self._laid = 0  # blocks whose positions these are
        self._tokens: list[int] = []
        self._of: list[int] = []  # each token's block
        self._taken = self._cached = 0
        self._ended = self._staged = False
        self._keys: tuple[bytes, ...] = ()

    @property
    def frames(self) -> int:
        return len(self._of)

    @property
    def done(self) -> bool:
        return self._ended or self.frames >= self._prepared.most_frames

    def feed(self, units: Sequence[MoreText], *, final: bool) -> None:
        for unit in units:
            self._text += len(unit.ids)
            self._blocks.feed(unit.ids, final=False)
        if final:
            self._blocks.feed((), final=True)
        self._settle()

    def prefix(self) -> Sequence[bytes]:
        if not self._keys and self._blocks.known:
            first = np.array(self._blocks.known[0].ids, np.int64)
            self._keys = keys((first,), min(len(first), common(self._prepared.opening)))
        return self._keys

    def restore(self, arrays: Arrays) -> None:
        self._stand(arrays["token"].tolist(), arrays[PASSAGE].tolist())
        self._taken = len(self._of)

    def rewind(self, frames: int) -> None:
        if frames < self.frames:
            tokens, of = self._tokens[:frames], self._of[:frames]
            self._spoken, self._ids, self._laid, self._ended = [[]], [], 0, False
            self._tokens, self._of = [], []
            self._stand(tokens, of)
        self._cached, self._staged = 0, False

    def _stand(self, tokens: Sequence[int], of: Sequence[int]) -> None:
        """Behind these tokens, each of its block."""
        for token, block in zip(tokens, of, strict=True):
            while len(self._spoken) <= block:
                self._spoken.append([])
            self._spoken[block].append(token)
            self._tokens.append(token)
            self._of.append(block)
        self._settle()

    @property
    def _block(self) -> Block | None:
        """The one that is spoken; None while its text is missing."""
        at = len(self._spoken) - 1
        return self._blocks.known[at] if at < len(self._blocks.known) else None

    def _settle(self) -> None:
        """Go on with the next block where this one has all of its tokens."""
        block = self._block
        if block is not None and len(self._spoken[-1]) >= self._most(block):
            if block.limit is None:
                self._ended = True
            else:
                self._next()
        self._lay_out()

    def _most(self, block: Block) -> int:
        """Tokens of speech that it may have."""
        return MOST_RATIO * self._text if block.limit is None else block.limit

    def _next(self) -> None:
        self._spoken.append([])
        self._staged = False

    def _lay_out(self) -> None:
        for at in range(self._laid, min(len(self._spoken), len(self._blocks.known))):
            self._ids += self._blocks.known[at].ids
            self._ids += [self._speech + token for token in self._spoken[at]]
            self._laid = at + 1

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # without its text nothing can be said
        block = self._block
        if block is None or self.done or self.frames + ahead >= self._prepared.most_frames:
            return None
        if len(self._spoken[-1]) + ahead >= self._most(block):
            return None
        end = len(self._ids) + ahead
        if ahead or (end - self._cached == 1 and self._spoken[-1]):
            return Plan(end - 1, 1, decode=True)
        return Plan(self._cached, end - self._cached)

    def inputs(self, plan: Plan, lane: int = 0) -> Arrays:
        del lane
        return {"id": np.array(self._ids[plan.start : plan.end], np.int64)}

    def stage(self, write: SlotWriter) -> None:
        if self._staged:
            return
        self._staged = True
        block, drawn = self._block, self._drawn()
        early = _ALWAYS if block is not None and block.limit is not None else 0
        write("token", self._spoken[-1][-1] if self._spoken[-1] else 0)
        tell(write, self._prepared, drawn, self.frames + len(self._spoken) - 1, early)

    def _drawn(self) -> list[int]:
        """What was drawn last, in order, fill tokens included."""
        found: list[int] = []
        for spoken in reversed(self._spoken):
            found = [*spoken[-WINDOW:], *found]
            if len(found) >= WINDOW:
                break
            found = [self._fill, *found]
        else:
            del found[:1]  # no fill token comes before the first block
        return found

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._cached = cached
        for token in frames["token"].tolist():
            self._spoken[-1].append(token)
            self._ids.append(self._speech + token)
            self._tokens.append(token)
            self._of.append(len(self._spoken) - 1)
        block = self._block
        if ended and block is not None and block.limit is None:
            self._ended = True
        elif ended:
            self._next()
        self._settle()

    def take(self, count: int) -> Taken:
        first, self._taken = self._taken, self._taken + count
        tokens = np.array(self._tokens[first : self._taken], np.int16)
        return Taken({"token": tokens, PASSAGE: np.array(self._of[first : self._taken], np.int32)})
