"""The codec's specification, from its networks."""

from __future__ import annotations

from typing import Final

from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet
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
