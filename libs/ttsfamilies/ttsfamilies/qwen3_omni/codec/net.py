"""The decoder: a mean of embeddings, a sliding-window transformer, convolutions up to 24 kHz.

Qwen3-TTS's decoder with another front, and with large transposed convolutions that wait: each gives
a step's outputs only when it knows the next one, so that the first input of a stream gives none.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttsfamilies.base.codec.causal import CausalState, SlidingWindow, Tails, blank
from ttsfamilies.base.codec.causal_dac import CausalWave, UpsampleBlock
from ttsfamilies.qwen3_omni.codec.config import WaveformSizes, load_config
from ttsfamilies.qwen3_tts.codec.net import SnakeBeta
from ttsfamilies.qwen3_tts.codec.weights import wave_sources

OTHERS = ("thinker.", "talker.")


def transformer_config(c: WaveformSizes) -> DecoderConfig:
    """No norms on queries and keys, scaled residuals."""
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_size,
        hidden=c.intermediate_size,
        eps=c.rms_norm_eps,
        rope=RopeConfig(theta=c.theta),
        qkv_bias=c.attention_bias,
        out_bias=c.attention_bias,
        layer_scale=True,
    )


class LaggingDecoder(CausalWave):
    """Codes to sound, `lag_samples` late."""

    def __init__(self, config: WaveformSizes) -> None:
        c = config
        rates = c.upsampling_ratios, c.upsample_rates
        super().__init__(c.hidden_size, c.decoder_dim, *rates, SnakeBeta)
        self.config = config
        self.codes = nn.Embedding(c.codebook_size * c.num_quantizers, c.hidden_size)
        self.transformer = Decoder(transformer_config(c))

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""
        c, like = self.transformer.config, self.codes.weight
        return blank(c, self.config.sliding_window, self.convolutions(), batch, like)

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; the first `lag_samples` of a blank stream's samples are none."""
        del begin
        tails = Tails(state.tails, lengths)
        window = SlidingWindow(state, lengths, frames.shape[1])
        tables = torch.arange(frames.shape[2], device=frames.device) * self.config.codebook_size
        x = self.codes(frames + tables).mean(-2)
        positions = state.position[:, None] + torch.arange(x.shape[1], device=x.device)
        x = self.transformer(x, positions, window.attend).transpose(1, 2)
        x = self._raised(self.widened(x, tails), state.position == 0, tails)
        samples = self.sounded(x, tails).clamp(-1, 1)
        return samples, CausalState(state.position + lengths, *window.done(), tails.done())

    def _raised(self, x: Tensor, fresh: Tensor, tails: Tails) -> Tensor:
        """Through the large blocks. Steps that a blank stream does not have are kept at zero, which
        is what a convolution sees before its first input. fresh: [batch] bool.
        """
        missing = 0
        for block in self.ups:
            assert isinstance(block, UpsampleBlock)
            missing = (missing + 1) * block.up.rate
            x = tails.through(block.up, block.snake(x))
            there = torch.arange(x.shape[2], device=x.device) >= missing * fresh[:, None]
            x = torch.where(there[:, None], x, 0)
            for unit in block.units:
                x = torch.where(there[:, None], unit(x, tails), 0)
        return x


def sources(c: WaveformSizes) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {"codes.weight": same("code2wav.code_embedding.weight")}
    found |= decoder_sources(transformer_config(c), "transformer.", "code2wav.pre_transformer.")
    return found | wave_sources(len(c.upsampling_ratios), len(c.upsample_rates), "code2wav.")


def load_decoder(folder: Path, device: str = "cpu") -> LaggingDecoder:
    """The codec of a checkpoint folder, in float32; raises CheckpointError."""
    config = load_config(folder)
    with torch.device("meta"):
        net = LaggingDecoder(config)
    stated, shards = sources(config), Shards.of(folder)
    return filled(net, stated, shards, others=OTHERS, device=device)
