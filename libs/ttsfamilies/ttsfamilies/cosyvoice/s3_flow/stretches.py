"""Passages of many streams, solved a stretch at a time, a step a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, rows
from ttsfamilies.base.codec.base import Due
from ttsfamilies.cosyvoice.s3_flow.encoder import Ahead
from ttsfamilies.cosyvoice.s3_flow.flow import Solving
from ttsfamilies.cosyvoice.s3_flow.pages import Carrying
from ttsfamilies.cosyvoice.s3_flow.passage import PASSAGE, Carried, FlowPrompt, Passage, Solved
from ttsfamilies.cosyvoice.s3_flow.past import NOTHING, Pair, Past
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


class _Opened(NamedTuple):
    """A passage and what is to be solved of it, up to the token `end`. tokens: of it, and those
    looked at. noise: the frame that its noise begins with. fresh: see Solving.
    """

    passage: Passage
    end: int
    tokens: Tensor
    noise: int
    fresh: tuple[int, ...]

    @property
    def ahead(self) -> Ahead:
        kept = self.passage.kept
        return Ahead(self.tokens, self.end - kept.tokens, kept.encoded)


class Stretches:
    """sound: what a passage's mel frames are shown to."""

    def __init__(self, carrying: Carrying, sound: Sound) -> None:
        self._net, self._carrying, self._sound = carrying.net, carrying, sound
        self._device = carrying.net.input_embedding.weight.device

    def blank(self, state: S3Stream) -> Passage:
        """A passage that begins with the stream's next frame, of which nothing is known but the
        recording.
        """
        prompt = state.prompt
        if prompt is None:
            raise MalformedMessage("a stream without a recording")
        where = begin(state.draws, self._sound.net.sizes.harmonics, self._device)
        if self._sound.phase is not Phase.PACE:
            where = torch.zeros_like(where)
        kept, count = Carried(pasts=(NOTHING,) * self._net.steps), len(prompt.tokens)
        mel, window = prompt.mel[:, :0], self._sound.window(where)
        return Passage(state.frame, prompt.tokens, count, kept, mel, window, count)

    def begin(self, begins: Sequence[tuple[S3Stream, Arrays, Due]]) -> None:
        """New frames of each; what of them can be solved is at work then."""
        grew = [(new, due, self._grow(new, frames, due)) for new, frames, due in begins]
        self._start([(new, due, end) for new, due, end in grew if end > _of(new).solved])

    def _start(self, works: Sequence[tuple[S3Stream, Due, int]]) -> None:
        if not works:
            return
        opened = [self._opened(new, end) for new, _, end in works]
        told, encoded = self._net.encode([one.ahead for one in opened])
        for (new, due, _), one, mu, after in zip(works, opened, told, encoded, strict=True):
            kept, prompt = one.passage.kept, _prompt(new)
            x = new.draws.frames(one.noise, mu.shape[1], mu.device).to(mu.dtype)
            cond = _cond(prompt, kept.tokens * MEL_FRAMES, mu)
            solving = Solving(
                x, mu, cond, prompt.speaker, kept.pasts, pages=kept.pages, fresh=one.fresh
            )
            new.passage = replace(one.passage, work=Solved(due, one.end, after, solving))

    def _grow(self, new: S3Stream, frames: Arrays, due: Due) -> int:
        """Up to which token the passage can be solved then: to the grid, or, if it closes, to its
        end.
        """
        if new.passage is None:
            new.passage = self.blank(new)
            new.of = int(frames[PASSAGE][0]) if PASSAGE in frames else 0
        tokens = torch.from_numpy(frames["token"].astype(np.int64)).to(self._device)
        whole = torch.cat((new.passage.tokens, tokens))
        new.passage = replace(new.passage, tokens=whole, closed=due.closes)
        if self._net.windowed:
            if len(whole) * MEL_FRAMES > MOST_FRAMES:
                raise MalformedMessage(
                    f"more than {MOST_FRAMES} mel frames of recording and speech"
                )
            return reach(new.passage)
        if due.closes:
            return len(whole)
        return (len(whole) - LOOKAHEAD) // CHUNK * CHUNK if self._net.chunk else 0

    def _opened(self, new: S3Stream, end: int) -> _Opened:
        passage, fresh = self._carrying.begin(new.key, _of(new), end)
        if passage.solved > passage.prompt and not passage.kept.tokens:
            self._carrying.recomputed += 1
        if not self._net.windowed:
            first = passage.kept.tokens
            tokens = passage.tokens[first : end + LOOKAHEAD]
            return _Opened(passage, end, tokens, first * MEL_FRAMES, fresh)
        opened = _prompt(new).opened
        if opened is not None and not passage.kept.tokens:
            passage = replace(passage, kept=opened)
        end = stretch_end(passage)
        return _Opened(passage, end, looked_at(passage, end), noise_from(passage), fresh)

    def step(self, news: Sequence[S3Stream]) -> None:
        """A step of each stretch that is at work. Behind its last, its mel frames wait for HiFT,
        and if its passage can be solved farther, the next comes.
        """
        working = [
            (new, passage, passage.work)
            for new in news
            if (passage := new.passage) is not None and passage.work is not None
        ]
        if not working:
            return
        more = []
        after = self._carrying.step([work.solving for _, _, work in working])
        for (new, passage, work), solving in zip(working, after, strict=True):
            if solving.done < self._net.steps:
                new.passage = replace(passage, work=replace(work, solving=solving))
                continue
            new.passage = passage = _solved(passage, work, solving)
            if not self._rests(new):
                more.append((new, work.due, reach(passage)))
        self._start(more)

    def _rests(self, new: S3Stream) -> bool:
        """Whether nothing more of the passage can be solved; what it carries is settled then."""
        passage = _of(new)
        if self._net.windowed:
            passage = new.passage = shortened(passage)
            if passage.kept.tokens == passage.prompt:
                _prompt(new).opened = passage.kept
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


def _prompt(new: S3Stream) -> FlowPrompt:
    assert new.prompt is not None
    return new.prompt


def _solved(passage: Passage, work: Solved, solving: Solving) -> Passage:
    mel = solving.x[:, (passage.solved - passage.kept.tokens) * MEL_FRAMES :]
    pages = (*solving.pages, *solving.fresh)
    return replace(
        passage,
        kept=Carried(work.end, work.encoded, solving.news, pages),
        mel=torch.cat((passage.mel, mel), 1),
        solved=max(passage.solved, work.end),
        work=None,
    )


def _cond(prompt: FlowPrompt, first: int, like: Tensor) -> Tensor:
    """The recording's mel frames where they are, zeros behind them."""
    known = prompt.mel[:, first : first + like.shape[1]]
    return torch.nn.functional.pad(known, (0, like.shape[1] - known.shape[1]))
