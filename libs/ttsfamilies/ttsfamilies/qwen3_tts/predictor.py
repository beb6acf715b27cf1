"""The code predictor: codebooks 1 .. 15 of a frame, one after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import DecoderConfig, RopeConfig
from ttsfamilies.base.lm.depth import DepthTransformer
from ttsfamilies.qwen3_tts.config import BackboneConfig


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


class CodePredictor(DepthTransformer):
    """Decoder, one embedding table and one head for each residual codebook.

    codes: [residual codebooks * vocabulary, talker dim]; heads: [residuals, vocabulary, dim].
    """

    def __init__(self, c: BackboneConfig) -> None:
        super().__init__(predictor_config(c), c.codebooks - 1)
        p = c.code_predictor_config
        self.size = p.vocab_size
        self.codes = nn.Embedding(self.residuals * p.vocab_size, c.hidden_size)
        same = c.hidden_size == p.hidden_size
        self.project = nn.Identity() if same else nn.Linear(c.hidden_size, p.hidden_size)
        self.heads = nn.Parameter(torch.empty(self.residuals, p.vocab_size, p.hidden_size))

    def table(self, codebook: int) -> Tensor:
        return self.codes.weight[(codebook - 1) * self.size : codebook * self.size]

    def head(self, codebook: int) -> Tensor:
        return self.heads[codebook - 1]
