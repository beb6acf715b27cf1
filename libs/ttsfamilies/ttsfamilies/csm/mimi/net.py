"""The decoder: codes to 25 Hz, a transformer with a window, a SEANet decoder to 24 kHz.

Works one-shot, or goes on from a `CausalState` with the same result. Shapes depend on batch and
padded length alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import MimiSizes
from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, Decoder, DecoderConfig
from ttscommon.engine.nn.mimi import quantizer_part, transformer_config
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttsfamilies.base.codec.causal import (
    CausalStack,
    CausalState,
    Quantizer,
    Tails,
    attended,
    quantizer_sources,
)


@dataclass(frozen=True)
class _Talker:
    """config.json of a talker that holds its codec."""

    codec_config: MimiSizes


def load_sizes(folder: Path) -> tuple[MimiSizes, str]:
    """The sizes, and what the names of its tensors begin with; raises CheckpointError."""
    path = folder / "config.json"
    alone = read_json(path, dict[str, Any]).get("model_type") == "mimi"
    sizes = read_json(path, MimiSizes) if alone else read_json(path, _Talker).codec_config
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: {wrong}")
    return sizes, "" if alone else "codec_model."


def context_frames(c: MimiSizes) -> int:
    """So many frames back the decoder looks: beyond, a stream's past changes no sample.

    Each layer looks one window back; the first convolution six steps, each transposed one a step,
    their residual blocks two steps a dilation, the last convolution two samples; the first
    transposed convolution one frame.
    """
    rate = c.frame_samples // c.last_stride
    reach = (c.num_hidden_layers * (c.sliding_window - 1) + c.kernel_size - 1) * rate
    dilations = sum(c.dilation_growth_rate**depth for depth in range(c.num_residual_layers))
    for ratio in c.upsampling_ratios:
        reach += rate
        rate //= ratio
        reach += (c.residual_kernel_size - 1) * dilations * rate
    return -(-(reach + c.last_kernel_size - 1) // c.frame_samples) + 1


# What of a whole Mimi only its encoder needs.
UNUSED = ("encoder", "downsample.", "quantizer.")


class StreamingResidual(nn.Module):
    """A dilated convolution to part of the width and a pointwise one back, around a residual."""

    def __init__(self, c: MimiSizes, size: int, dilation: int) -> None:
        super().__init__()
        inner = size // c.compress
        self.wide = CausalConv1d(size, inner, c.residual_kernel_size, dilation=dilation)
        self.point = nn.Conv1d(inner, size, 1)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> the same."""
        inner = tails.through(self.wide, nn.functional.elu(x))
        return x + self.point(nn.functional.elu(inner))


class MimiUpsampleBlock(nn.Module):
    """A transposed convolution that multiplies the rate and halves the width; residual blocks."""

    def __init__(self, c: MimiSizes, size: int, ratio: int) -> None:
        super().__init__()
        self.up = CausalUpsample1d(size, size // 2, 2 * ratio, ratio)
        dilations = [c.dilation_growth_rate**depth for depth in range(c.num_residual_layers)]
        self.blocks = nn.ModuleList(StreamingResidual(c, size // 2, each) for each in dilations)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> [batch, size / 2, steps * ratio]."""
        x = tails.through(self.up, nn.functional.elu(x))
        for block in self.blocks:
            x = block(x, tails)
        return x


class VectorDecoder(CausalStack):
    """Frames of any kind to sound; `vectors` says what they are. stack: of the transformer."""

    def __init__(self, c: MimiSizes, stack: DecoderConfig) -> None:
        super().__init__()
        self.sizes, self.window = c, c.sliding_window
        dim, width = c.hidden_size, c.num_filters << len(c.upsampling_ratios)
        self.stretch = CausalUpsample1d(
            dim, dim, 2 * c.last_stride, c.last_stride, groups=c.upsample_groups, bias=False
        )
        self.transformer = Decoder(stack)
        self.widen = CausalConv1d(dim, width, c.kernel_size)
        self.ups = nn.ModuleList(
            MimiUpsampleBlock(c, width >> i, ratio) for i, ratio in enumerate(c.upsampling_ratios)
        )
        self.out = CausalConv1d(c.num_filters, 1, c.last_kernel_size)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        yield from (self.stretch, self.widen)
        for up in self.ups:
            assert isinstance(up, MimiUpsampleBlock)
            yield up.up
            yield from (block.wide for block in up.blocks if isinstance(block, StreamingResidual))
        yield self.out

    @abstractmethod
    def vectors(self, frames: Tensor) -> Tensor:
        """[batch, frames, ...] -> [batch, hidden_size, frames]."""

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; only distances matter."""
        tails = Tails(state.tails, lengths)
        x = tails.through(self.stretch, self.vectors(frames)).transpose(1, 2)
        steps = lengths * self.sizes.last_stride
        x, keys, values = attended(self.transformer, x, steps, state)
        x = tails.through(self.widen, x.transpose(1, 2))
        for up in self.ups:
            x = up(x, tails)
        samples = tails.through(self.out, nn.functional.elu(x))[:, 0].clamp(-1, 1)
        return samples, CausalState(state.position + steps, keys, values, tails.done())


class MimiDecoder(VectorDecoder):
    """Codes to sound. Call `quantizer.freeze` after loading."""

    def __init__(self, c: MimiSizes, *, interleaved: bool = False) -> None:
        """interleaved: see RopeConfig."""
        stack = transformer_config(c)
        super().__init__(c, replace(stack, rope=replace(stack.rope, interleaved=interleaved)))
        self.quantizer = Quantizer(c.num_quantizers, c.codebook_size, c.codebook_dim, c.hidden_size)

    def vectors(self, frames: Tensor) -> Tensor:
        """Ids that no codebook has count as the nearest one."""
        return self.quantizer(frames.clamp(0, self.sizes.codebook_size - 1))


def sources(net: MimiDecoder, theirs: str) -> dict[str, Source]:
    """Every parameter's published tensors, whose names begin with `theirs`."""
    first, rest = (quantizer_part(theirs, kind) for kind in ("semantic", "acoustic"))
    count = net.sizes.num_quantizers
    found = quantizer_sources(count, first, rest, "layers.*.codebook.embed_sum")
    stack = f"{theirs}decoder_transformer."
    found |= decoder_sources(net.transformer.config, "transformer.", stack)
    places = {ours: f"decoder.layers.{layer}.conv" for ours, layer in layers(net.sizes)}
    return found | named(net, {"stretch": "upsample.conv", **places}, theirs=theirs)


def layers(c: MimiSizes) -> Iterator[tuple[str, str]]:
    """Our names of the SEANet's convolutions, and theirs: activations count there as well."""
    yield "widen", "0"
    at = 1
    for i in range(len(c.upsampling_ratios)):
        yield f"ups.{i}.up", f"{at + 1}"
        for j in range(c.num_residual_layers):
            yield f"ups.{i}.blocks.{j}.wide", f"{at + 2 + j}.block.1"
            yield f"ups.{i}.blocks.{j}.point", f"{at + 2 + j}.block.3"
        at += 2 + c.num_residual_layers
    yield "out", f"{at + 1}"


def load_decoder(folder: Path, device: str = "cpu") -> MimiDecoder:
    """The decoder in a folder, in float32; raises CheckpointError."""
    sizes, theirs = load_sizes(folder)
    net = unfilled(MimiDecoder, sizes)
    shards = Shards.of(folder)
    unused = tuple(f"{theirs}{part}" for part in UNUSED)
    others = (*unused, *(name for name in shards.shapes if not name.startswith(theirs)))
    filled(net, sources(net, theirs), shards, others=others, device=device)
    net.quantizer.freeze()
    return net
