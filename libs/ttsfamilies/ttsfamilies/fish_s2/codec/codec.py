"""Fish Audio S2's codec in the engine: exact state is carried for ever."""

from __future__ import annotations

from pathlib import Path

from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal_codec import TOLERANCE, CausalCodec
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.receptive_field import causal_frames
from ttsfamilies.fish_s2.codec.net import FishDecoder, load_decoder


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> CausalCodec:
    """The codec beside a talker; raises CheckpointError."""
    return codec_of(name, load_decoder(folder, how.where), how)


def codec_of(name: str, net: FishDecoder, how: CodecOptions = ON_CPU) -> CausalCodec:
    """A loaded decoder. Its talker draws ids beyond its codes.

    Each layer looks one window back; the convolutions behind them reach back further.
    """
    c = net.sizes
    spec = CodecSpec(
        *(name, "fish_s2", c.sample_rate, c.frame_samples),
        {"codes": Field((c.codebooks,), "i2")},
        context_frames=c.layers * (c.window - 1) + causal_frames(c.ratios, c.rates),
        tolerance=TOLERANCE,
    )
    return CausalCodec(net, spec, how)
