"""Passages of many streams, solved a stretch at a time, a step a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, rows
from ttsfamilies.base.codec.base import Due
from ttsfamilies.cosyvoice.s3_flow.pages import Carrying
from ttsfamilies.cosyvoice.s3_flow.passage import (
    PASSAGE,
    Begun,
    FlowPrompt,
    Passage,
    begun,
    blank,
    grown,
    stepped,
)
from ttsfamilies.cosyvoice.s3_flow.past import Pair, Past
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, LOOKAHEAD, MEL_FRAMES
from ttsfamilies.cosyvoice.s3_flow.sound import Draws, Phase, Sound, begin

# Passages of a flow that has no mask: Step-Audio 2's (docs/decisions/streaming-flow.md).
#
# A recording is solved by itself, then chunk behind chunk, each of which sees what is carried. Of
# the keys and values in attention, newest stretch first, the authors keep as many as the
# recording has frames and WINDOW of those at the end: the oldest. Where a chunk's noise begins
# follows from how many are kept.


WINDOW: Final = 100
MOST_FRAMES: Final = 5000
"""Of recording and speech: the reference's relative positions end there."""


def reach(passage: Passage) -> int:
    """Up to which token it can be solved now."""
    if passage.closed:
        return len(passage.tokens)
    spoken = len(passage.tokens) - passage.prompt - LOOKAHEAD
    return passage.prompt + max(0, spoken // CHUNK * CHUNK)


def stretch_end(passage: Passage) -> int:
    """Where its next stretch ends: with the recording, with a chunk, or with the last token."""
    at, count = passage.kept.tokens, len(passage.tokens)
    if at < passage.prompt:
        return passage.prompt
    return at + CHUNK if count - at >= CHUNK + LOOKAHEAD else count


def looked_at(passage: Passage, end: int) -> Tensor:
    """Tokens of the stretch up to `end`, and those that it looks ahead to: behind the recording
    they are its own first ones.
    """
    if end == passage.prompt:
        recording = passage.tokens[:end]
        return torch.cat((recording, recording[:LOOKAHEAD]))
    return passage.tokens[passage.kept.tokens : end + LOOKAHEAD]


def noise_from(passage: Passage) -> int:
    """The first frame of its next stretch's noise."""
    return min(passage.kept.tokens, passage.prompt + WINDOW // MEL_FRAMES) * MEL_FRAMES


def shortened(passage: Passage) -> Passage:
    """The same, with no more keys and values than the next stretch sees."""
    kept, frames = passage.kept, passage.prompt * MEL_FRAMES
    pasts = tuple(_shortened(past, frames) for past in kept.pasts)
    return replace(passage, kept=replace(kept, pasts=pasts))


def _shortened(past: Past, newest: int) -> Past:
    if past.steps <= newest + WINDOW:
        return past
    pairs = tuple(Pair(*(_ends(part, newest) for part in pair)) for pair in past.pairs)
    return replace(past, steps=newest + WINDOW, pairs=pairs)


def _ends(part: Tensor, newest: int) -> Tensor:
    return torch.cat((part[:, :, :newest], part[:, :, -WINDOW:]), 2)


@dataclass(eq=False)
class S3Stream:
    """key: a number of its own. frame: the next one. passage: the one that frames are of; it begins
    when frames come. A launch works on copies, which are the streams when all of it is done.
    """

    key: int
    draws: Draws
    frame: int
    prompt: FlowPrompt | None = None
    passage: Passage | None = None
    of: int = -1


class Stretches:
    """sound: what a passage's mel frames are shown to."""

    def __init__(self, carrying: Carrying, sound: Sound) -> None:
        self._net, self._carrying, self._sound = carrying.net, carrying, sound
        self._device = carrying.net.input_embedding.weight.device

    def blank(self, state: S3Stream) -> Passage:
        """A passage that begins with the stream's next frame."""
        if state.prompt is None:
            raise MalformedMessage("a stream without a recording")
        where = begin(state.draws, self._sound.net.sizes.harmonics, self._device)
        if self._sound.phase is not Phase.PACE:
            where = torch.zeros_like(where)
        return blank(self._net, state.frame, state.prompt, self._sound.window(where))

    def begin(self, begins: Sequence[tuple[S3Stream, Arrays, Due]]) -> None:
        """New frames of each; what of them can be solved is at work then."""
        grew = [(new, due, self._grow(new, frames, due)) for new, frames, due in begins]
        self._start([(new, due, end) for new, due, end in grew if end > _of(new).solved])

    def _start(self, works: Sequence[tuple[S3Stream, Due, int]]) -> None:
        if not works:
            return
        after = begun(self._net, [self._begun(*work) for work in works])
        for (new, _, _), passage in zip(works, after, strict=True):
            new.passage = passage

    def _grow(self, new: S3Stream, frames: Arrays, due: Due) -> int:
        """Up to which token the passage can be solved then."""
        if new.passage is None:
            new.passage = self.blank(new)
            new.of = int(frames[PASSAGE][0]) if PASSAGE in frames else 0
        tokens = torch.from_numpy(frames["token"].astype(np.int64)).to(self._device)
        new.passage, end = grown(self._net, new.passage, tokens, due)
        if not self._net.windowed:
            return end
        if len(new.passage.tokens) * MEL_FRAMES > MOST_FRAMES:
            raise MalformedMessage(f"more than {MOST_FRAMES} mel frames of recording and speech")
        return reach(new.passage)

    def _begun(self, new: S3Stream, due: Due, end: int) -> Begun:
        passage, fresh = self._carrying.begin(new.key, _of(new), end)
        prompt = new.prompt
        assert prompt is not None
        if passage.solved > passage.prompt and not passage.kept.tokens:
            self._carrying.recomputed += 1
        if self._net.windowed:
            if prompt.opened is not None and not passage.kept.tokens:
                passage = replace(passage, kept=prompt.opened)
            end = stretch_end(passage)
            tokens, noise = looked_at(passage, end), noise_from(passage)
        else:
            first = passage.kept.tokens
            tokens, noise = passage.tokens[first : end + LOOKAHEAD], first * MEL_FRAMES
        return Begun(passage, due, end, tokens, noise, fresh, prompt, new.draws)

    def step(self, news: Sequence[S3Stream]) -> None:
        """A step of each stretch that is at work. Behind a stretch whose passage can be solved
        farther comes the next.
        """
        working = [(new, new.passage) for new in news if new.passage and new.passage.work]
        if not working:
            return
        passages = [passage for _, passage in working]
        after = stepped(self._carrying.step, self._net.steps, passages)
        more = []
        for (new, before), passage in zip(working, after, strict=True):
            new.passage = passage
            if passage.work is None and not self._rests(new):
                assert before.work is not None
                more.append((new, before.work.due, reach(passage)))
        self._start(more)

    def _rests(self, new: S3Stream) -> bool:
        """Whether nothing more of the passage can be solved; what it carries is settled then."""
        passage = _of(new)
        if self._net.windowed:
            passage = new.passage = shortened(passage)
            if new.prompt is not None and passage.kept.tokens == passage.prompt:
                new.prompt.opened = passage.kept
            if passage.kept.tokens < reach(passage):
                return False
        new.passage = self._carrying.behind(new.key, passage)
        return True

    def finish(self, new: S3Stream) -> None:
        """All steps of what is at work."""
        while new.passage is not None and new.passage.work is not None:
            self.step([new])

    def solve(self, new: S3Stream, frames: Arrays, *, closes: bool) -> None:
        """All of these frames at once, as far as they can be."""
        self.begin([(new, frames, Due(rows(frames), closes))])
        self.finish(new)


def _of(new: S3Stream) -> Passage:
    assert new.passage is not None
    return new.passage
