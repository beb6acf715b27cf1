"""Whisper-VQ: 12.5 ids a second of what is said, by an encoder that hears in blocks of 4 s.

A Whisper encoder with causal convolutions, whose attention sees a block and all before it; states
are averaged by fours and each becomes the nearest of the codebook. Always float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import dense_attention
from ttscommon.engine.nn.weights import Shards, Source, digest, filled, same, unfilled
from ttscommon.sound.recordings import LEAST_SAID_S, read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.recordings import windowed_sinc
from ttsfamilies.base.s3.references import RATE_HZ, WhisperMel
from ttsfamilies.glm_voice.request import TOKENIZER, HearingConfig, load_hearing_config

_TAPS, _HOP, _STRIDE = 3, 160, 2
# Training's, and what lies behind the codebook.
_OTHERS: Final = ("embed_positions2.", "ema_", "quantize_ema_", "layer_norm.")


class CausalBlock(nn.Module):
    """Pre-norm attention and a plain feed-forward network, by Whisper's names."""

    def __init__(self, c: HearingConfig) -> None:
        super().__init__()
        self._heads = c.encoder_attention_heads
        linear = {"q_proj": True, "k_proj": False, "v_proj": True, "out_proj": True}
        self.self_attn = nn.ModuleDict(
            {name: nn.Linear(c.d_model, c.d_model, bias=bias) for name, bias in linear.items()}
        )
        self.self_attn_layer_norm = nn.LayerNorm(c.d_model)
        self.fc1 = nn.Linear(c.d_model, c.encoder_ffn_dim)
        self.fc2 = nn.Linear(c.encoder_ffn_dim, c.d_model)
        self.final_layer_norm = nn.LayerNorm(c.d_model)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """[frames, dim] -> the same; visible: [frames, frames] bool."""
        normed, attn = self.self_attn_layer_norm(x), self.self_attn
        q, k, v = (
            cast(Tensor, attn[name](normed)).view(len(x), self._heads, -1)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        x = x + attn["out_proj"](dense_attention(q, k, v, visible).flatten(-2))
        found: Tensor = x + self.fc2(nn.functional.gelu(self.fc1(self.final_layer_norm(x))))
        return found


class WhisperVQ(nn.Module):
    """A recording at 16 kHz to its ids; names of parameters are the published ones."""

    def __init__(self, c: HearingConfig) -> None:
        super().__init__()
        self.config = c
        self.mel = WhisperMel()
        self.conv1 = nn.Conv1d(c.num_mel_bins, c.d_model, _TAPS)
        self.conv2 = nn.Conv1d(c.d_model, c.d_model, _TAPS, _STRIDE)
        self.embed_positions = nn.Embedding(c.max_source_positions, c.d_model)
        self.layers = nn.ModuleList(CausalBlock(c) for _ in range(c.quantize_position))
        self.codebook = nn.Embedding(c.quantize_vocab_size, c.d_model)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [tokens] int64, one for each 1280 samples begun."""
        samples, pool = len(wav), self.config.pooling_kernel_size
        token = _HOP * _STRIDE * pool
        count = -(-samples // token)
        x = self._states(nn.functional.pad(wav, (0, count * token - samples)), samples)
        pooled = x.view(count, pool, -1).mean(1)
        known = self.codebook.weight
        found: Tensor = (known.square().sum(1) - 2 * pooled @ known.T).argmin(1)
        return found

    def _states(self, wav: Tensor, samples: int) -> Tensor:
        """Of a recording that was padded, of which so many samples were said."""
        x = self.mel(wav)[None]
        for conv in (self.conv1, self.conv2):
            x = nn.functional.gelu(conv(nn.functional.pad(x, (_TAPS - 1, 0))))
        at = torch.arange(x.shape[2], device=x.device)
        x = x[0].T + self.embed_positions(at)
        block = self.config.quantize_causal_block_size
        visible = (at // block <= (at // block)[:, None]) & (at * _STRIDE * _HOP < samples)
        for layer in self.layers:
            x = layer(x, visible)
        return cast(Tensor, x)


class SpokenTurns:
    """What hears a user. revision: names its weights. codes: that it knows."""

    def __init__(self, net: WhisperVQ) -> None:
        self._net, self.codes = net, net.codebook.num_embeddings
        self.revision = digest((net,))[:32]

    @classmethod
    def load(cls, checkpoint: Path, device: str) -> SpokenTurns:
        """From the folder within a checkpoint; raises CheckpointError."""
        config = load_hearing_config(checkpoint)
        net = unfilled(WhisperVQ, config)
        shards = Shards.of(checkpoint / TOKENIZER)
        prefix = "" if "conv1.weight" in shards.shapes else "model.encoder."
        filled(net, sources(net, prefix), shards, others=_others(config, prefix), device=device)
        net.mel = WhisperMel().to(device)  # made of numbers, not of weights
        return cls(net)

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive: ids [tokens, 1]."""
        samples, rate = read_recording(recording, LEAST_SAID_S)
        heard = torch.from_numpy(windowed_sinc(samples, rate, RATE_HZ))
        ids = self._net(heard.to(self._net.codebook.weight.device))
        return {"codes": ids[:, None].cpu().numpy().astype(np.int32)}


def sources(net: WhisperVQ, prefix: str = "") -> dict[str, Source]:
    """Every parameter's published tensors."""
    return {name: same(prefix + name) for name, _ in net.named_parameters()}


def _others(c: HearingConfig, prefix: str) -> tuple[str, ...]:
    """Layers behind the codebook as well."""
    names = (*_OTHERS, *(f"layers.{i}." for i in range(c.quantize_position, 64)))
    return (
        *(prefix + name for name in names),
        *(("model.decoder.", "proj_out.") if prefix else ()),
    )
