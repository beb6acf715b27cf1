"""Fish Audio S2's codec in the engine: exact state from a stream's first frame to its last.

The transformer's rotations are rounded to bfloat16, so that its states depend on where in a stream
a frame is and not on distances alone: a state that is opened late is told of its first frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import tensor_files
from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import PAIRS, Shards, Source, filled, folded, named, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import CausalState, Tails, attended
from ttsfamilies.base.codec.dac import CausalWave, Level, Snake
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.base.codec.windowed import causal_frames
from ttsfamilies.fish_s2.config import CODEC, FishCodecSizes, load_sizes
from ttsfamilies.fish_s2.family import stack_sources

_ENCODES = ("encoder.", "quantizer.downsample.", "quantizer.pre_module.")
# Tables that the authors' code keeps beside the weights, and rebuilds.
_TABLES = ("freqs_cis", "causal_mask")


class FishDecoder(CausalWave):
    """Codes to sound."""

    def __init__(self, c: FishCodecSizes) -> None:
        super().__init__(c.latent, c.decoder, c.ratios, c.rates, Snake)
        self.sizes, self.window = c, c.window
        self.levels = nn.ModuleList(
            Level(size, c.inner, c.latent) for size in (c.semantic_codes, *[c.codes] * c.residuals)
        )
        self.transformer = Decoder(transformer_config(c))
        self.register_buffer("last", _last(c), persistent=False)

    last: Tensor

    def latents(self, codes: Tensor) -> Tensor:
        """[batch, frames, codebooks] int64 -> [batch, latent, frames]; a code that a codebook has
        not counts as its last.
        """
        columns = torch.minimum(codes.clamp(min=0), self.last).unbind(-1)
        return sum(level(one) for level, one in zip(self.levels, columns, strict=True))

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet."""
        tails, x = Tails(state.tails, lengths), self.latents(frames).transpose(1, 2)
        here = state.position if begin is None else begin + state.position
        x, keys, values = attended(self.transformer, x, lengths, state, here)
        samples = self.sound(x.transpose(1, 2), tails).tanh()
        return samples, CausalState(state.position + lengths, keys, values, tails.done())


def _last(c: FishCodecSizes) -> Tensor:
    """The last code of each codebook, [codebooks] int64."""
    return torch.tensor([c.semantic_codes, *[c.codes] * c.residuals], device="cpu") - 1


def transformer_config(c: FishCodecSizes) -> DecoderConfig:
    """Of the transformer in front of the convolutions."""
    return DecoderConfig(
        dim=c.latent,
        layers=c.layers,
        heads=c.heads,
        kv_heads=c.heads,
        head_dim=c.head_dim,
        hidden=c.hidden,
        eps=c.eps,
        rope=RopeConfig(theta=c.theta, rounded=True),
        layer_scale=True,
    )


def sources(net: FishDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = stack_sources(net.transformer, "transformer.", "quantizer.post_module.")
    found |= named(net, _PLAIN)
    found |= folded(named(net, _LEVELS), PAIRS[1])
    last = len(net.ups) + 1
    ends = {"snake": f"decoder.model.{last}", "out": f"decoder.model.{last + 1}.conv"}
    return found | folded(named(net, ends | _CONVOLUTIONS), PAIRS[0])


_QUANTIZERS: Final = "quantizer.quantizer.quantizers"
_SEMANTIC: Final = "quantizer.semantic_quantizer.quantizers.0"
_PLAIN: Final = {
    "levels.0.codebook": f"{_SEMANTIC}.codebook",
    "levels.*.codebook": f"{_QUANTIZERS}.*-1.codebook",
    "stretch.*": "quantizer.upsample.*.0.conv",
    "refine.*.depthwise": "quantizer.upsample.*.1.dwconv.conv",
    "refine.*.norm": "quantizer.upsample.*.1.norm",
    "refine.*.rise": "quantizer.upsample.*.1.pwconv1",
    "refine.*.fall": "quantizer.upsample.*.1.pwconv2",
    "refine.*.scale": "quantizer.upsample.*.1.gamma",
}
# Whose weights are published as lengths and directions.
_LEVELS: Final = {
    "levels.0.out_proj": f"{_SEMANTIC}.out_proj",
    "levels.*.out_proj": f"{_QUANTIZERS}.*-1.out_proj",
}
_CONVOLUTIONS: Final = {
    "widen": "decoder.model.0.conv",
    "ups.*.snake": "decoder.model.*+1.block.0",
    "ups.*.up": "decoder.model.*+1.block.1.conv",
    "ups.*.units.*.snake1": "decoder.model.*+1.block.*+2.block.0",
    "ups.*.units.*.wide": "decoder.model.*+1.block.*+2.block.1.conv",
    "ups.*.units.*.snake2": "decoder.model.*+1.block.*+2.block.2",
    "ups.*.units.*.point": "decoder.model.*+1.block.*+2.block.3.conv",
}


def load_decoder(folder: Path, device: str = "cpu") -> FishDecoder:
    """The decoder in a checkpoint's folder, in float32; raises CheckpointError."""
    shards = Shards(tensor_files(folder, CODEC))
    net = unfilled(FishDecoder, load_sizes(folder))
    encodes = (name for name in shards.shapes if ".in_proj." in name or name.endswith(_TABLES))
    filled(net, sources(net), shards, others=(*_ENCODES, *encodes), device=device)
    net.last = _last(net.sizes).to(device)  # of which memory without contents was made
    return net


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
