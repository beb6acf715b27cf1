"""Mimi in the engine: each stream carries exact state from its first frame to its last."""

from __future__ import annotations

from pathlib import Path

from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.csm.mimi import kyutai
from ttsfamilies.csm.mimi.net import MimiDecoder, context_frames, load_decoder


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> CausalCodec:
    """The codec that a folder is, or of the talker that holds it; raises CheckpointError."""
    read = kyutai.load_decoder if kyutai.holds(folder) else load_decoder
    return codec_of(name, read(folder, how.where), how)


def codec_of(name: str, net: MimiDecoder, how: CodecOptions = ON_CPU) -> CausalCodec:
    """A loaded decoder. Talkers have ids of their own beyond its codes."""
    c = net.sizes
    spec = CodecSpec(
        *(name, "mimi", c.sampling_rate, c.frame_samples),
        {"codes": Field((c.num_quantizers,), "i2")},
        context_frames=context_frames(c),
        tolerance=TOLERANCE,
    )
    return CausalCodec(net, spec, how)
