"""The decoder: split residual vectors, a sliding-window transformer, convolutions up to 24 kHz.

Every method works one-shot, or goes on from a `CarriedState` with the same result: all tails are
carried, nothing is decoded twice. Shapes depend on batch and padded length alone, fit for CUDA
graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, Decoder, DecoderConfig, RopeConfig
from vocoder.codecs.carried import CarriedState, Quantizer, SlidingWindow, Tails, blank
from vocoder.codecs.qwen3_tts.config import DecoderSizes


def transformer_config(c: DecoderSizes) -> DecoderConfig:
    """The decoder's transformer: no norms on queries and keys, scaled residuals."""
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_dim,
        hidden=c.intermediate_size,
        eps=c.rms_norm_eps,
        rope=RopeConfig(theta=c.rope_theta),
        qkv_bias=c.attention_bias,
        out_bias=c.attention_bias,
        layer_scale=True,
    )


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


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm and a two-layer MLP around a scaled residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.depthwise = CausalConv1d(size, size, 7, groups=size)
        self.norm = nn.LayerNorm(size, 1e-6)
        self.rise = nn.Linear(size, 4 * size)
        self.fall = nn.Linear(4 * size, size)
        self.scale = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> the same."""
        mixed = tails.through(self.depthwise, x).transpose(1, 2)
        hidden = nn.functional.gelu(self.rise(self.norm(mixed)))
        return x + (self.scale * self.fall(hidden)).transpose(1, 2)


class ResidualUnit(nn.Module):
    """A dilated convolution and a pointwise one around a residual."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.snake1, self.snake2 = SnakeBeta(size), SnakeBeta(size)
        self.wide = CausalConv1d(size, size, 7, dilation=dilation)
        self.point = nn.Conv1d(size, size, 1)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, size, steps] -> the same."""
        return x + self.point(self.snake2(tails.through(self.wide, self.snake1(x))))


class UpsampleBlock(nn.Module):
    """A transposed convolution that multiplies the rate, and three residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        self.snake = SnakeBeta(inputs)
        self.up = CausalUpsample1d(inputs, outputs, 2 * rate, rate)
        self.units = nn.ModuleList(ResidualUnit(outputs, dilation) for dilation in (1, 3, 9))

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]."""
        x = tails.through(self.up, self.snake(x))
        for unit in self.units:
            x = unit(x, tails)
        return x


class WaveSizes(Protocol):
    """Of the part behind the transformer."""

    @property
    def upsampling_ratios(self) -> tuple[int, ...]: ...
    @property
    def upsample_rates(self) -> tuple[int, ...]: ...
    @property
    def decoder_dim(self) -> int: ...


class CausalWave(nn.Module):
    """The part behind the transformer: convolutions up to samples."""

    def add_wave(self, c: WaveSizes, latent: int) -> None:
        """Behind the parts in front of it, whose parameters come first."""
        self.stretch = nn.ModuleList(
            CausalUpsample1d(latent, latent, ratio, ratio) for ratio in c.upsampling_ratios
        )
        self.refine = nn.ModuleList(ConvNeXtBlock(latent) for _ in c.upsampling_ratios)
        widths = [c.decoder_dim >> i for i in range(len(c.upsample_rates) + 1)]
        self.widen = CausalConv1d(latent, widths[0], 7)
        self.ups = nn.ModuleList(
            UpsampleBlock(widths[i], widths[i + 1], rate) for i, rate in enumerate(c.upsample_rates)
        )
        self.snake = SnakeBeta(widths[-1])
        self.out = CausalConv1d(widths[-1], 1, 7)

    def wave_convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """In the order in which sound passes them; pointwise ones carry nothing."""
        for stretch, refine in zip(self.stretch, self.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            assert isinstance(refine, ConvNeXtBlock)
            yield from (stretch, refine.depthwise)
        yield self.widen
        for block in self.ups:
            assert isinstance(block, UpsampleBlock)
            yield block.up
            yield from (unit.wide for unit in block.units if isinstance(unit, ResidualUnit))
        yield self.out

    def widened(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, latent, frames] -> [batch, decoder_dim, frames * the stretches' ratios]."""
        for stretch, refine in zip(self.stretch, self.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            x = refine(tails.through(stretch, x), tails)
        return tails.through(self.widen, x)

    def sounded(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, width, samples] -> [batch, samples] in -1..1."""
        return tails.through(self.out, self.snake(x))[:, 0].clamp(-1, 1)


class CodecDecoder(CausalWave):
    """Codes to sound. Call `quantizer.freeze` after loading."""

    def __init__(self, config: DecoderSizes) -> None:
        super().__init__()
        c = self.config = config
        inner = c.codebook_dim // 2
        self.quantizer = Quantizer(c.num_quantizers, c.codebook_size, inner, c.codebook_dim)
        self.before = CausalConv1d(c.codebook_dim, c.latent_dim, 3)
        self.project_in = nn.Linear(c.latent_dim, c.hidden_size)
        self.transformer = Decoder(transformer_config(c))
        self.project_out = nn.Linear(c.hidden_size, c.latent_dim)
        self.add_wave(c, c.latent_dim)

    @property
    def frame_samples(self) -> int:
        return self.config.frame_samples

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """In the order in which sound passes them; pointwise ones carry nothing."""
        yield self.before
        yield from self.wave_convolutions()

    def new_state(self, batch: int = 1) -> CarriedState:
        """Streams of which nothing was decoded yet."""
        c, like = self.transformer.config, self.before.weight
        return blank(c, self.config.sliding_window, self.convolutions(), batch, like)

    def forward(self, codes: Tensor) -> Tensor:
        """One shot: [batch, frames, codebooks] int64 -> [batch, frames * frame_samples]."""
        lengths = torch.full((len(codes),), codes.shape[1], device=codes.device)
        return self.step(codes, lengths, self.new_state(len(codes)))[0]

    def step(
        self, codes: Tensor, lengths: Tensor, state: CarriedState
    ) -> tuple[Tensor, CarriedState]:
        """Decode the next frames of a batch of streams.

        codes: [batch, frames, codebooks] int64, right padded; lengths: [batch] int64 real frames.
        Returns samples [batch, frames * frame_samples] in -1..1, valid up to
        lengths * frame_samples, and the state behind them.
        """
        tails = Tails(state.tails, lengths)
        window = SlidingWindow(state, lengths, codes.shape[1])
        x = tails.through(self.before, self.quantizer(codes))
        x = self._transformed(x.transpose(1, 2), state.position, window).transpose(1, 2)
        x = self.widened(x, tails)
        for block in self.ups:
            x = block(x, tails)
        samples = self.sounded(x, tails)
        return samples, CarriedState(state.position + lengths, *window.done(), tails.done())

    def _transformed(self, x: Tensor, position: Tensor, window: SlidingWindow) -> Tensor:
        positions = position[:, None] + torch.arange(x.shape[1], device=x.device)
        x = self.transformer(self.project_in(x), positions, window.attend)
        return self.project_out(x)
