"""Fish Audio S2's codec in the engine: exact state from a stream's first frame to its last.

The transformer's rotations are rounded to bfloat16, so that its states depend on where in a stream
a frame is and not on distances alone: a state that is opened late is told of its first frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import tensor_files
from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.snake import DILATIONS, Snake
from ttscommon.engine.nn.weights import Shards, Source, filled, same, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import CausalState, SlidingWindow, Tails, blank
from ttsfamilies.base.codec.dac import CausalWave, Level
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.base.codec.windowed import causal_frames
from ttsfamilies.fish_s2.config import CODEC, FishCodecSizes, load_sizes
from ttsfamilies.fish_s2.family import stack_sources

_CONV = "conv.parametrizations.weight.original"
_ENCODES = ("encoder.", "quantizer.downsample.", "quantizer.pre_module.")
# Tables that the authors' code keeps beside the weights, and rebuilds.
_TABLES = ("freqs_cis", "causal_mask")


class FishDecoder(CausalWave):
    """Codes to sound."""

    def __init__(self, c: FishCodecSizes) -> None:
        super().__init__(c.latent, c.decoder, c.ratios, c.rates, Snake)
        self.sizes = c
        self.levels = nn.ModuleList(
            Level(size, c.inner, c.latent) for size in (c.semantic_codes, *[c.codes] * c.residuals)
        )
        self.transformer = Decoder(transformer_config(c))
        self.register_buffer("last", _last(c), persistent=False)

    last: Tensor

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""
        stack, like = self.transformer.config, self.out.weight
        return blank(stack, self.sizes.window, self.convolutions(), batch, like)

    def latents(self, codes: Tensor) -> Tensor:
        """[batch, frames, codebooks] int64 -> [batch, latent, frames]; a code that a codebook has
        not counts as its last.
        """
        columns = torch.minimum(codes.clamp(min=0), self.last).unbind(-1)
        found: Tensor = sum(level(one) for level, one in zip(self.levels, columns, strict=True))
        return found

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet."""
        tails, count = Tails(state.tails, lengths), frames.shape[1]
        window = SlidingWindow(state, lengths, count)
        here = state.position if begin is None else begin + state.position
        positions = here[:, None] + torch.arange(count, device=frames.device)
        x = self.transformer(self.latents(frames).transpose(1, 2), positions, window.attend)
        samples = self.sound(x.transpose(1, 2), tails).tanh()
        return samples, CausalState(state.position + lengths, *window.done(), tails.done())


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
    found = stack_sources(net.transformer.config, "transformer.", "quantizer.post_module.")
    for i in range(net.sizes.codebooks):
        book = f"quantizer.quantizer.quantizers.{i - 1}." if i else _SEMANTIC
        found[f"levels.{i}.codebook.weight"] = same(f"{book}codebook.weight")
        lengths = (f"{book}out_proj.weight_g", f"{book}out_proj.weight_v")
        found[f"levels.{i}.out_proj.weight"] = Source(lengths, folded=True)
        found[f"levels.{i}.out_proj.bias"] = same(f"{book}out_proj.bias")
    for i in range(len(net.sizes.ratios)):
        found |= _stretch_sources(i)
    found |= _conv("widen", "decoder.model.0.")
    for i in range(len(net.sizes.rates)):
        found |= _up_sources(f"ups.{i}.", f"decoder.model.{1 + i}.block.")
    last = 1 + len(net.sizes.rates)
    found["snake.alpha"] = same(f"decoder.model.{last}.alpha")
    return found | _conv("out", f"decoder.model.{last + 1}.")


_SEMANTIC = "quantizer.semantic_quantizer.quantizers.0."


def _conv(ours: str, theirs: str) -> dict[str, Source]:
    """A convolution whose weight is published as lengths and directions."""
    names = (f"{theirs}{_CONV}0", f"{theirs}{_CONV}1")
    bias = same(f"{theirs}conv.bias")
    return {f"{ours}.weight": Source(names, folded=True), f"{ours}.bias": bias}


def _pair(ours: str, theirs: str) -> Iterator[tuple[str, Source]]:
    for part in ("weight", "bias"):
        yield f"{ours}.{part}", same(f"{theirs}.{part}")


def _stretch_sources(at: int) -> dict[str, Source]:
    """A transposed convolution, and the ConvNeXt behind it."""
    theirs = f"quantizer.upsample.{at}."
    names = {
        f"stretch.{at}": f"{theirs}0.conv",
        f"refine.{at}.depthwise": f"{theirs}1.dwconv.conv",
        f"refine.{at}.norm": f"{theirs}1.norm",
        f"refine.{at}.rise": f"{theirs}1.pwconv1",
        f"refine.{at}.fall": f"{theirs}1.pwconv2",
    }
    found = {key: source for ours, name in names.items() for key, source in _pair(ours, name)}
    return found | {f"refine.{at}.scale": same(f"{theirs}1.gamma")}


def _up_sources(ours: str, theirs: str) -> dict[str, Source]:
    found = {f"{ours}snake.alpha": same(f"{theirs}0.alpha")} | _conv(f"{ours}up", f"{theirs}1.")
    for i in range(len(DILATIONS)):
        unit, published = f"{ours}units.{i}.", f"{theirs}{2 + i}.block."
        found |= {f"{unit}snake1.alpha": same(f"{published}0.alpha")}
        found |= {f"{unit}snake2.alpha": same(f"{published}2.alpha")}
        found |= _conv(f"{unit}wide", f"{published}1.") | _conv(f"{unit}point", f"{published}3.")
    return found


def load_decoder(folder: Path, device: str = "cpu") -> FishDecoder:
    """The decoder in a checkpoint's folder, in float32; raises CheckpointError."""
    shards = Shards(tensor_files(folder, CODEC))
    net = unfilled(FishDecoder, load_sizes(folder))
    stated = sources(net)
    encodes = (name for name in shards.shapes if ".in_proj." in name or name.endswith(_TABLES))
    others = (*_ENCODES, *encodes)
    filled(net, stated, shards, others=others, device=device)
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
