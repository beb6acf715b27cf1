"""The decoder: split residual vectors, a sliding-window transformer, convolutions up to 24 kHz.

Every method works one-shot, or goes on from a `CausalState` with the same result: all tails are
carried, nothing is decoded twice. Shapes depend on batch and padded length alone, fit for CUDA
graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import size_problems
from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, Decoder, DecoderConfig
from ttsfamilies.base.codec.causal import CausalState, Quantizer, Tails, attended
from ttsfamilies.base.codec.dac import CausalResidualUnit, CausalWave, ConvNeXtBlock, UpsampleBlock
from ttsfamilies.base.codec.kernels.rows import StateRows, UnsettledSum
from ttsfamilies.base.codec.kernels.way import FusedTails, Wave, packed_of
from ttsfamilies.base.codec.windowed import causal_frames
from ttsfamilies.base.lm.codes import decoder_config
from ttsfamilies.base.lm.llama import StackSizes


@dataclass(frozen=True, kw_only=True)
class WaveSizes(StackSizes):
    """A transformer over frames, and the convolutions behind it, by their published names."""

    codebook_size: int
    num_quantizers: int
    sliding_window: int
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    front_frames: ClassVar[int]

    @property
    def frame_samples(self) -> int:
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def context_frames(self) -> int:
        """So many frames back the decoder looks: beyond, a stream's past changes no sample.

        Each layer looks one window back, what is in front of the first `front_frames`; the
        convolutions behind the transformer reach back less than one window's frame each.
        """
        tails = causal_frames(self.upsampling_ratios, self.upsample_rates)
        return self.num_hidden_layers * (self.sliding_window - 1) + self.front_frames + tails

    def problems(self) -> list[str]:
        found = super().problems()
        if self.decoder_dim % (1 << len(self.upsample_rates)):
            found.append(f"decoder_dim {self.decoder_dim} cannot be halved at every rate")
        return found


@dataclass(frozen=True, kw_only=True)
class DecoderSizes(WaveSizes):
    """Sizes of the decoder."""

    codebook_dim: int
    latent_dim: int
    head_dim: int
    rope_theta: float
    front_frames: ClassVar[int] = 2

    def problems(self) -> list[str]:
        odd = [f"codebook_dim {self.codebook_dim} is odd"] if self.codebook_dim % 2 else []
        return [*super().problems(), *odd]


@dataclass(frozen=True)
class CodecConfig:
    """config.json of the codec's folder, as far as the decoder goes."""

    decoder_config: DecoderSizes
    output_sample_rate: int
    decode_upsample_rate: int
    model_type: str


def load_config(folder: Path) -> CodecConfig:
    """Read and check the config of a codec's own folder; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, CodecConfig)
    if config.model_type != "qwen3_tts_tokenizer_12hz":
        raise CheckpointError(f"{path}: model_type {config.model_type!r} is not served")
    for wrong in (*size_problems(config), *config.decoder_config.problems()):
        raise CheckpointError(f"{path}: decoder_config: {wrong}")
    if config.decoder_config.frame_samples != config.decode_upsample_rate:
        raise CheckpointError(f"{path}: the upsampling rates do not give decode_upsample_rate")
    return config


def transformer_config(c: WaveSizes) -> DecoderConfig:
    """The decoder's transformer: no norms on queries and keys, scaled residuals."""
    return replace(decoder_config(c), layer_scale=True)


class SnakeBeta(nn.Module):
    """x + sin^2(a x) / b with a and b learnt as logarithms, a channel each (BigVGAN)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(size))
        self.beta = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, size, steps] -> the same."""
        alpha, beta = self.alpha.exp()[:, None], self.beta.exp()[:, None]
        return x + (x * alpha).sin().square() / (beta + 1e-9)


class CodecDecoder(CausalWave):
    """Codes to sound. Call `quantizer.freeze` after loading."""

    def __init__(self, config: DecoderSizes) -> None:
        c = config
        rates = c.upsampling_ratios, c.upsample_rates
        super().__init__(c.latent_dim, c.decoder_dim, *rates, SnakeBeta)
        self.config, self.window = config, c.sliding_window
        inner = c.codebook_dim // 2
        self.quantizer = Quantizer(c.num_quantizers, c.codebook_size, inner, c.codebook_dim)
        self.before = CausalConv1d(c.codebook_dim, c.latent_dim, 3)
        self.project_in = nn.Linear(c.latent_dim, c.hidden_size)
        self.transformer = Decoder(transformer_config(c))
        self.project_out = nn.Linear(c.hidden_size, c.latent_dim)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        yield self.before
        yield from super().convolutions()

    def forward(self, codes: Tensor) -> Tensor:
        """One shot: [batch, frames, codebooks] int64 -> [batch, frames * frame_samples]."""
        lengths = torch.full((len(codes),), codes.shape[1], device=codes.device)
        return self.step(codes, lengths, self.new_state(len(codes)))[0]

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; only distances matter."""
        tails = Tails(state.tails, lengths)
        x = tails.through(self.before, self.quantizer(frames)).transpose(1, 2)
        x, keys, values = attended(self.transformer, self.project_in(x), lengths, state)
        samples = self.sound(self.project_out(x).transpose(1, 2), tails).clamp(-1, 1)
        return samples, CausalState(state.position + lengths, keys, values, tails.done())


# The decoder's step on a device by fused kernels, over states that stay where they are.


class FusedDecoder:
    """A CodecDecoder whose weights are where they stay. tensor_cores: see VocoderSettings."""

    def __init__(self, net: CodecDecoder, *, tensor_cores: bool = False) -> None:
        self._net = net
        self._packed = packed_of(net) if tensor_cores else {}
        self._waves: dict[nn.Module, Wave] = {
            module: _wave(module) for module in net.modules() if isinstance(module, SnakeBeta)
        }

    def step(self, codes: Tensor, rows: StateRows, state: Sequence[Tensor]) -> Tensor:
        """As CodecDecoder.step, moving the rows' part of all streams' states on.

        state: [states + 1, ...] each, in the order of CausalState.named; keys and values lie in
        a ring, position p at p modulo its size. Returns samples [rows, samples].
        """
        position, keys, values, *tails = state
        net, way = self._net, FusedTails(iter(tails), rows, self._packed)
        first = position.index_select(0, rows.slots).masked_fill(rows.fresh, 0)
        x = way.through(net.before, UnsettledSum(net.quantizer(codes))).settled()
        x = self._transformed(x.transpose(1, 2), first, rows, keys, values).transpose(1, 2)
        position.index_copy_(0, rows.slots, first + rows.lengths)
        for stretch, refine in zip(net.stretch, net.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            assert isinstance(refine, ConvNeXtBlock)
            x = _refined(refine, way, way.through(stretch, UnsettledSum(x.contiguous())))
        waiting = way.through(net.widen, UnsettledSum(x.contiguous()))
        for block in net.ups:
            assert isinstance(block, UpsampleBlock)
            waiting = self._upsampled(block, way, waiting)
        samples = way.through(net.out, waiting, self._waves[net.snake]).settled()
        return samples[:, 0].clamp(-1, 1)

    def _transformed(
        self, x: Tensor, first: Tensor, rows: StateRows, keys: Tensor, values: Tensor
    ) -> Tensor:
        from ttsfamilies.base.codec.kernels.ring_triton import attend_ring

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend_ring(q, k, v, keys[:, layer], values[:, layer], rows, first)

        positions = first[:, None] + torch.arange(x.shape[1], device=x.device)
        x = self._net.transformer(self._net.project_in(x), positions, attend)
        return self._net.project_out(x)

    def _upsampled(
        self, block: UpsampleBlock, way: FusedTails, waiting: UnsettledSum
    ) -> UnsettledSum:
        waiting = way.through(block.up, waiting, self._waves[block.snake])
        for unit in block.units:
            assert isinstance(unit, CausalResidualUnit)
            found, base = way.beside(unit.wide, waiting, self._waves[unit.snake1])
            waved = way.waved(found, self._waves[unit.snake2])
            point = way.convolved(unit.point, waved)
            waiting = UnsettledSum(base.x, base.bias, point, unit.point.bias)
        return waiting


def _refined(block: ConvNeXtBlock, way: FusedTails, x: UnsettledSum) -> Tensor:
    """[rows, size, steps] -> the same."""
    mixed = way.through(block.depthwise, x).settled().transpose(1, 2)
    hidden = nn.functional.gelu(block.rise(block.norm(mixed)))
    return x.settled() + (block.scale * block.fall(hidden)).transpose(1, 2)


def _wave(snake: SnakeBeta) -> Wave:
    return snake.alpha.exp(), (snake.beta.exp() + 1e-9).reciprocal()
