"""Passages of a flow that has no mask: Step-Audio 2's (docs/decisions/streaming-flow.md).

A recording is solved by itself, then chunk behind chunk, each of which sees what is carried. Of the
keys and values in attention, newest stretch first, the authors keep as many as the recording has
frames and WINDOW of those at the end: the oldest. Where a chunk's noise begins follows from how
many are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from vocoder.codecs.s3_flow.passage import Passage
from vocoder.codecs.s3_flow.past import Pair, Past
from vocoder.codecs.s3_flow.sizes import CHUNK, LOOKAHEAD, MEL_FRAMES

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
