"""The codec's specification, from its networks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Arrays, Field, rows
from ttsfamilies.base.codec.base import CodecSpec, Samples
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet
from ttsfamilies.cosyvoice.s3_flow.passage import FlowPrompt
from ttsfamilies.cosyvoice.s3_flow.sizes import (
    CHUNK,
    FRAME_SAMPLES,
    LOOKAHEAD,
    MEL_FRAMES,
    SAMPLE_RATE,
    TOKEN_SAMPLES,
    UNetSizes,
)
from ttsfamilies.cosyvoice.s3_flow.weights import Networks

TOKENS: Final = 6561
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
