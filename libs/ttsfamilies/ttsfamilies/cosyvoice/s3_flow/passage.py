"""A passage in the decoder: tokens that wait for the flow, mel frames that wait for HiFT.

Passages never change: what a step makes of one is another, which its stream has when the launch is
done. A launch that fails has changed none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Arrays, Field, rows
from ttsfamilies.base.codec.base import CodecSpec, Due, Samples
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.cosyvoice.s3_flow.encoder import Encoded
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet, Networks, Solving
from ttsfamilies.cosyvoice.s3_flow.past import NOTHING, Past
from ttsfamilies.cosyvoice.s3_flow.sizes import (
    CHUNK,
    FRAME_SAMPLES,
    LOOKAHEAD,
    MEL_FRAMES,
    SAMPLE_RATE,
    TOKEN_SAMPLES,
    UNetSizes,
)
from ttsfamilies.cosyvoice.s3_flow.sound import MelWindow


@dataclass(frozen=True)
class Carried:
    """What the flow goes on from, behind `tokens` tokens of prompt and passage.

    pages: see Solving.
    """

    tokens: int = 0
    encoded: Encoded = field(default_factory=Encoded)
    pasts: tuple[Past, ...] = ()
    pages: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        return self.encoded.nbytes + sum(past.nbytes for past in self.pasts)


@dataclass(eq=False)
class FlowPrompt:
    """What a recording says. tokens: [tokens] int64. mel: [mels, MEL_FRAMES * tokens]. speaker:
    [mels], as the flow is told of it. opened: what the flow goes on from behind the recording, once
    one of the streams that have this prompt has solved that by itself.
    """

    tokens: Tensor
    mel: Tensor
    speaker: Tensor
    opened: Carried | None = None


@dataclass(frozen=True)
class Solved:
    """A stretch at work: what of it waits, where it ends, and what the encoder keeps then."""

    due: Due
    end: int
    encoded: Encoded
    solving: Solving


@dataclass(frozen=True)
class Passage:
    """first: the stream's frame that it begins with. tokens: of the prompt and those solved or
    looked at. solved: how many of them have mel frames; mel: of those, [mels, frames], that HiFT
    was not shown. taken: frames of the passage whose sound was asked for. shown: mel frames that
    HiFT was shown. closed: no token follows. work: the stretch that is being solved.
    """

    first: int
    tokens: Tensor
    prompt: int
    kept: Carried
    mel: Tensor
    window: MelWindow
    solved: int
    closed: bool = False
    taken: int = 0
    shown: int = 0
    work: Solved | None = None

    @property
    def waiting(self) -> int:
        """Tokens that were looked at and have no mel frames."""
        return len(self.tokens) - self.solved

    def hop(self, least: int, *, from_prompt: bool) -> int:
        """Tokens to solve for next, up to the grid, which begins with the prompt or behind it.
        least: mel frames without which no sound comes: a first hop of fewer has its successor with
        it.
        """
        hop = CHUNK - (self.solved - self.prompt * from_prompt) % CHUNK
        begins = self.solved <= self.prompt
        return hop + CHUNK if begins and hop * MEL_FRAMES <= least else hop

    def forgetful(self, net: FlowNet) -> Passage:
        """The same, but the flow begins anew with the next stretch."""
        return replace(self, kept=Carried(pasts=(NOTHING,) * net.steps))


PASSAGE: Final = "passage"
# Batches and windows of other lengths round otherwise.
_TOLERANCE: Final = 4


def spec_of(name: str, family: str, nets: Networks, lag: int) -> CodecSpec:
    """What the engine has to know of networks; lag: mel frames that HiFT holds back."""
    sizes, whole = nets.flow.sizes, not nets.flow.chunk
    frame = {"token": Field((), "i2", TOKENS)}
    if nets.own:
        frame |= {PASSAGE: Field((), "i4"), "left": Field((), "i4")}
    held = 0 if whole else LOOKAHEAD * TOKEN_SAMPLES + lag * FRAME_SAMPLES
    return CodecSpec(
        name,
        family,
        SAMPLE_RATE,
        TOKEN_SAMPLES,
        frame,
        lag_samples=held,
        context_frames=0,
        tolerance=_TOLERANCE,
        conditions={
            "token": Field((), "i2", TOKENS),
            "mel": Field((sizes.mels,), "f4"),
            "speaker": Field((sizes.speaker,), "f4"),
        },
        left="left" if whole else "",
        solver_steps=nets.flow.steps,
        most_together=2 * CHUNK,
        state_bytes=state_bytes(nets.flow),
    )


def state_bytes(net: FlowNet) -> int:
    """Of keys and values that a frame adds to what a stream carries."""
    size, c = net.input_embedding.weight.element_size(), net.sizes
    e = c.estimator
    layers = e.layers * (e.middle + 2) if isinstance(e, UNetSizes) else e.layers
    values = 2 * MEL_FRAMES * layers * e.inner * net.steps * net.rows
    if c.encoder is not None:
        values += 2 * c.width * (c.encoder.layers + MEL_FRAMES * c.encoder.up_layers)
    return values * size


# Recordings as streams know them: those with the same one share what it says.


class FlowPrompts:
    """Prompts by what recordings say: each is kept while a stream has it, and the latest longer."""

    def __init__(self, make: Callable[[Arrays], FlowPrompt]) -> None:
        self._make = make
        self._known: WeakValueDictionary[bytes, FlowPrompt] = WeakValueDictionary()
        self._latest: FlowPrompt | None = None

    def of(self, conditions: Arrays) -> FlowPrompt:
        key = _digest(conditions)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(conditions)
        self._latest = found
        return found


def _digest(conditions: Arrays) -> bytes:
    told = hashlib.blake2b()
    for name in sorted(conditions):
        told.update(f"{name}{conditions[name].shape}".encode())
        told.update(conditions[name].tobytes())
    return told.digest()


# Frames by passage, and sound as it is given out.


NONE: Final = np.zeros(0, np.float32)
_FADE: Final = SAMPLE_RATE // 50


def follows(of: int, frames: Arrays) -> bool:
    """Whether another passage than `of` begins with the first frame."""
    return PASSAGE in frames and rows(frames) > 0 and int(frames[PASSAGE][0]) != of


def of_one(frames: Arrays) -> int:
    """How many of the first frames are of one passage."""
    if not rows(frames) or PASSAGE not in frames:
        return rows(frames)
    others = np.flatnonzero(frames[PASSAGE] != frames[PASSAGE][0])
    return int(others[0]) if len(others) else rows(frames)


def samples(*parts: Tensor) -> Samples:
    return np.concatenate([NONE, *(part.float().cpu().numpy() for part in parts)])


def faded(sound: Tensor, at: int) -> Tensor:
    """Chatterbox's passages begin with silence and a fade, against spill from the recording.

    at: the passage's sample that `sound` begins with.
    """
    if at >= 2 * _FADE:
        return sound
    rise = (torch.cos(torch.linspace(torch.pi, 0, _FADE)) + 1) / 2
    whole = torch.cat((torch.zeros(_FADE), rise)).to(sound)[at : at + len(sound)]
    return torch.cat((sound[: len(whole)] * whole, sound[len(whole) :]))
