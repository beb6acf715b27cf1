"""The code predictor: codebooks 1 .. 15 of a frame, one after the other.

It sees one frame only. Its keys and values live in scratch of that frame: two positions go in
first (the backbone's hidden state and codebook 0), then one a codebook. All shapes are fixed by
the number of rows, so that a whole frame can be captured as one graph.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from talker.kernels.frame import attend_frame
from talker.models.qwen3_tts.config import BackboneConfig
from talker.sampling import Rules
from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig


class Pick(Protocol):
    """Chooses the ids of one codebook."""

    def __call__(self, logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        """logits: [rows, vocabulary] float32, `rules` not applied yet -> [rows] int64."""


def predictor_config(c: BackboneConfig) -> DecoderConfig:
    """The predictor's decoder."""
    p = c.code_predictor_config
    return DecoderConfig(
        dim=p.hidden_size,
        layers=p.num_hidden_layers,
        heads=p.num_attention_heads,
        kv_heads=p.num_key_value_heads,
        head_dim=p.head_dim,
        hidden=p.intermediate_size,
        eps=p.rms_norm_eps,
        rope=RopeConfig(theta=p.rope_theta),
        qk_norm=True,
        qkv_bias=p.attention_bias,
        out_bias=p.attention_bias,
        fp32_qkv=True,
    )


class Scratch:
    """Keys and values of one frame, [layers, rows, codebooks, kv_heads, head_dim] float32."""

    def __init__(self, c: DecoderConfig, rows: int, codebooks: int, like: Tensor) -> None:
        shape = (c.layers, rows, codebooks, c.kv_heads, c.head_dim)
        exact = torch.promote_types(like.dtype, torch.float32)
        self.keys = like.new_empty(shape, dtype=exact)
        self.values = like.new_empty(shape, dtype=exact)
        self.filled = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v: [rows, new, heads, head_dim], at the positions behind `filled`."""
        return attend_frame(q, k, v, self.keys[layer], self.values[layer], self.filled)


class CodePredictor(nn.Module):
    """Decoder, one embedding table and one head for each residual codebook.

    codes: [residual codebooks * vocabulary, talker dim]; heads: [residuals, vocabulary, dim].
    """

    def __init__(self, c: BackboneConfig) -> None:
        super().__init__()
        p = c.code_predictor_config
        self.residuals, self.size = c.codebooks - 1, p.vocab_size
        self.codes = nn.Embedding(self.residuals * p.vocab_size, c.hidden_size)
        same = c.hidden_size == p.hidden_size
        self.project = nn.Identity() if same else nn.Linear(c.hidden_size, p.hidden_size)
        self.decoder = Decoder(predictor_config(c))
        self.heads = nn.Parameter(torch.empty(self.residuals, p.vocab_size, p.hidden_size))

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """Codes [rows] of one residual codebook (1 is the first) -> [rows, talker dim]."""
        return self.codes(codes + (codebook - 1) * self.size)

    def embed_all(self, codes: Tensor) -> Tensor:
        """The sum over residual codebooks 1.. : [..., residuals] -> [..., talker dim]."""
        tables = torch.arange(self.residuals, device=codes.device) * self.size
        return self.codes(codes + tables).sum(-2)

    def forward(self, hidden: Tensor, first: Tensor, pick: Pick) -> Tensor:
        """Choose the residual codes of a frame.

        hidden: [rows, talker dim] of the backbone; first: [rows, talker dim], codebook 0
        embedded. Returns [rows, residuals] int64.
        """
        scratch = Scratch(self.decoder.config, len(hidden), self.residuals + 1, hidden)
        inputs, codes = torch.stack((hidden, first), 1), []
        for codebook in range(1, self.residuals + 1):
            codes.append(pick(self._logits(inputs, codebook, scratch), codebook))
            if codebook < self.residuals:
                inputs = self.embed(codes[-1], codebook)[:, None]
        return torch.stack(codes, 1)

    def _logits(self, inputs: Tensor, codebook: int, scratch: Scratch) -> Tensor:
        count = inputs.shape[1]
        positions = torch.arange(scratch.filled, scratch.filled + count, device=inputs.device)
        x = self.decoder(self.project(inputs), positions, scratch.attend)
        scratch.filled += count
        return nn.functional.linear(x[:, -1], self.heads[codebook - 1]).float()
