"""A part of an answer on its way to sound, block by block, as the authors' demo streams it.

Blocks of ids grow. All that was spoken before is the prompt of each: its ids and its mel frames, of
which the last are held back and faded into the next block's. HiFT begins each block with the frame
and the source that it ended with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttsfamilies.base.codec.base import Due
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sound import Phase, waves
from ttsfamilies.glm_voice.flow import STEPS, GlmFlow, frames_of

SAMPLE_RATE: Final = 22_050
HOP: Final = 256
TOKEN_SAMPLES: Final = 1764
HELD: Final = 34
"""Mel frames that wait for the next block."""
LAG_SAMPLES: Final = (HELD + 2) * HOP
"""With the frame that HiFT holds back, and the part of one that an id may not fill."""
_SIZES: Final = (25, 50, 100, 150, 200)
# Ids of a prompt: from some on the oldest are forgotten, as many at once as fill whole frames.
MOST_PROMPT: Final = 512
_FORGOTTEN: Final = 128
_SEED: Final = 42


@dataclass(frozen=True)
class GlmBlock:
    """Being solved. ids: of it. x, mu, cond: [mels, frames] of prompt and block. done: steps."""

    due: Due
    ids: Tensor
    x: Tensor
    mu: Tensor
    cond: Tensor
    done: int = 0


@dataclass(frozen=True)
class GlmPassage:
    """What was spoken since a silence. ids [n] int64, mel [mels, frames]: the prompt of what comes.
    held: [mels, HELD]. frame: [mels, 1], source [HOP]: what HiFT begins with. sound: [samples] not
    given yet. blocks: so many were solved. solved, taken: ids of all of them, and those given.
    """

    ids: Tensor
    mel: Tensor
    held: Tensor
    frame: Tensor
    source: Tensor
    sound: Tensor
    blocks: int = 0
    solved: int = 0
    taken: int = 0
    sent: int = 0
    closed: bool = False
    work: GlmBlock | None = None

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in (self.ids, self.mel, self.held, self.sound))

    @property
    def hop(self) -> int:
        """Ids of the next block."""
        return _SIZES[min(self.blocks, len(_SIZES) - 1)]


def blank(flow: GlmFlow) -> GlmPassage:
    """Nothing was spoken yet."""
    like = flow.spk_embed_affine_layer.bias
    mel, none = like.new_zeros(flow.mels, 0), like.new_zeros(0)
    return GlmPassage(none.long(), mel, mel, mel, none, none)


def begun(flow: GlmFlow, passage: GlmPassage, ids: Tensor, due: Due) -> GlmPassage:
    """With a block of ids to solve."""
    passage = _bounded(passage)
    mu = flow.conditioning(torch.cat((passage.ids, ids)))
    known = passage.mel.shape[1]
    cond = torch.nn.functional.pad(passage.mel, (0, mu.shape[1] - known))
    x = _drawn(flow.mels, mu.shape[1])[0].to(mu)
    return replace(passage, closed=due.closes, work=GlmBlock(due, ids, x, mu, cond))


def stepped(flow: GlmFlow, hift: Hift, passage: GlmPassage) -> GlmPassage:
    """A step further; behind the last the block has its sound."""
    work = passage.work
    assert work is not None
    x = flow.step(work.x, work.mu, work.cond, work.done)
    work = replace(work, x=x, done=work.done + 1)
    if work.done < STEPS:
        return replace(passage, work=work)
    mel = _faded(x[:, passage.mel.shape[1] :], passage.held)
    done = replace(
        passage,
        ids=torch.cat((passage.ids, work.ids)),
        blocks=passage.blocks + 1,
        solved=passage.solved + len(work.ids),
        work=None,
    )
    return _sounded(hift, done, mel, x.shape[1])


def flushed(hift: Hift, passage: GlmPassage) -> GlmPassage:
    """Closed, although no id is left: what was held back is its end. The demo drops it."""
    closed = replace(passage, closed=True)
    return _sounded(hift, closed, passage.held, 0) if passage.held.shape[1] else closed


def _sounded(hift: Hift, passage: GlmPassage, mel: Tensor, drawn: int) -> GlmPassage:
    """New mel frames to samples. drawn: frames that noise was drawn for before."""
    held = mel[:, :0]
    if not passage.closed:
        mel, held = mel[:, :-HELD], mel[:, -HELD:]
    shown = torch.cat((passage.frame, mel), 1)
    samples, source = _heard(hift, shown, passage.source, drawn)
    kept = 0 if passage.closed else HOP
    return replace(
        passage,
        mel=torch.cat((passage.mel, mel), 1),
        held=held,
        frame=mel[:, -1:],
        source=source[-HOP:],
        sound=torch.cat((passage.sound, samples[: len(samples) - kept])),
    )


def _heard(hift: Hift, mel: Tensor, known: Tensor, drawn: int) -> tuple[Tensor, Tensor]:
    """Samples of mel frames [mels, frames], and their source, which begins with what is known."""
    count = mel.shape[1] * HOP
    _, begin, noise = _drawn(hift.sizes.mels, drawn, hift.sizes.harmonics, count)
    pitch = hift.f0_predictor(mel[None].double())[0]
    begin, noise = (part.to(pitch) for part in (begin, noise))
    found = waves(Phase.PACE, pitch, torch.zeros_like(begin), begin, noise, SAMPLE_RATE)
    source = hift.source(found.to(mel.dtype))
    source = torch.cat((known, source[len(known) :]))
    return hift.decode(mel[None], source[None])[0], source


def _drawn(
    mels: int, frames: int, harmonics: int = 0, samples: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """What a block begins with [mels, frames], turns of phases [harmonics], and their noise
    [harmonics, samples]: the same in every block, by a generator of its own.
    """
    generator = torch.Generator().manual_seed(_SEED)
    x = torch.randn(1, mels, frames, generator=generator)[0]
    begin = torch.rand(harmonics, generator=generator) - 0.5
    begin[:1] = 0.0
    return x, begin, torch.randn(1, harmonics, samples, generator=generator)[0]


def _faded(mel: Tensor, held: Tensor) -> Tensor:
    """Into what was held back, by halves of a window that sum to a little more than 1."""
    count = held.shape[1]
    window = torch.from_numpy(np.hamming(2 * HELD)).to(mel)
    begin = mel[:, :count] * window[:count] + held * window[HELD : HELD + count]
    return torch.cat((begin, mel[:, count:]), 1)


def _bounded(passage: GlmPassage) -> GlmPassage:
    """Of a long answer the oldest ids are forgotten, and their mel frames."""
    surplus = max(0, len(passage.ids) - MOST_PROMPT)
    gone = math.ceil(surplus / _FORGOTTEN) * _FORGOTTEN
    mel = passage.mel[:, frames_of(gone) :]
    return replace(passage, ids=passage.ids[gone:], mel=mel)
