"""The decoder: split residual vectors, a sliding-window transformer, convolutions up to 24 kHz.

Every method works one-shot, or goes on from a `CausalState` with the same result: all tails are
carried, nothing is decoded twice. Shapes depend on batch and padded length alone, fit for CUDA
graphs.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, Decoder, DecoderConfig, RopeConfig
from ttsfamilies.base.codec.causal import CausalState, Quantizer, SlidingWindow, Tails, blank
from ttsfamilies.base.codec.causal_dac import CausalWave
from ttsfamilies.qwen3_tts.codec.config import DecoderSizes


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


class CodecDecoder(CausalWave):
    """Codes to sound. Call `quantizer.freeze` after loading."""

    def __init__(self, config: DecoderSizes) -> None:
        c = config
        rates = c.upsampling_ratios, c.upsample_rates
        super().__init__(c.latent_dim, c.decoder_dim, *rates, SnakeBeta)
        self.config = config
        inner = c.codebook_dim // 2
        self.quantizer = Quantizer(c.num_quantizers, c.codebook_size, inner, c.codebook_dim)
        self.before = CausalConv1d(c.codebook_dim, c.latent_dim, 3)
        self.project_in = nn.Linear(c.latent_dim, c.hidden_size)
        self.transformer = Decoder(transformer_config(c))
        self.project_out = nn.Linear(c.hidden_size, c.latent_dim)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """In the order in which sound passes them; pointwise ones carry nothing."""
        yield self.before
        yield from super().convolutions()

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""
        c, like = self.transformer.config, self.before.weight
        return blank(c, self.config.sliding_window, self.convolutions(), batch, like)

    def forward(self, codes: Tensor) -> Tensor:
        """One shot: [batch, frames, codebooks] int64 -> [batch, frames * frame_samples]."""
        lengths = torch.full((len(codes),), codes.shape[1], device=codes.device)
        return self.step(codes, lengths, self.new_state(len(codes)))[0]

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; only distances matter."""
        del begin
        tails = Tails(state.tails, lengths)
        window = SlidingWindow(state, lengths, frames.shape[1])
        x = tails.through(self.before, self.quantizer(frames))
        x = self._transformed(x.transpose(1, 2), state.position, window).transpose(1, 2)
        samples = self.sound(x, tails).clamp(-1, 1)
        return samples, CausalState(state.position + lengths, *window.done(), tails.done())

    def _transformed(self, x: Tensor, position: Tensor, window: SlidingWindow) -> Tensor:
        positions = position[:, None] + torch.arange(x.shape[1], device=x.device)
        x = self.transformer(self.project_in(x), positions, window.attend)
        return self.project_out(x)
