"""The code predictor: codebooks 1 .. 15 of a frame, one after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from talker.kernels.predictor import predict
from talker.kernels.stacked import Stacked, fits
from talker.models.qwen3_tts.config import BackboneConfig
from talker.models.shared.depth import CodeDraw, DepthTransformer, Picks
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.engine.nn import DecoderConfig, RopeConfig
from ttscommon.engine.nn.lora import adapted


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
    whole: on a device, the codes of a frame come from one launch (docs/decisions/cuda-graphs.md).
    """

    whole = False

    def __init__(self, c: BackboneConfig) -> None:
        super().__init__(predictor_config(c), c.codebooks - 1)
        p = c.code_predictor_config
        self.size = p.vocab_size
        self.codes = nn.Embedding(self.residuals * p.vocab_size, c.hidden_size)
        same = c.hidden_size == p.hidden_size
        self.project = nn.Identity() if same else nn.Linear(c.hidden_size, p.hidden_size)
        self.heads = nn.Parameter(torch.empty(self.residuals, p.vocab_size, p.hidden_size))
        self._fits = fits(self.decoder.config, c.hidden_size, p.vocab_size, self.residuals)
        self._stacked: Stacked | None = None

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """Codes [rows] of one residual codebook (1 is the first) -> [rows, talker dim]."""
        return self.codes(codes + (codebook - 1) * self.size)

    def embed_all(self, codes: Tensor) -> Tensor:
        """The sum over residual codebooks 1.. : [..., residuals] -> [..., talker dim]."""
        tables = torch.arange(self.residuals, device=codes.device) * self.size
        return self.codes(codes + tables).sum(-2)

    def head(self, codebook: int) -> Tensor:
        return self.heads[codebook - 1]

    def forward(self, hidden: Tensor, first: Tensor, pick: CodeDraw) -> Tensor:
        """See DepthTransformer, and `whole`; adapters stand between the parts of a launch."""
        if not (self.whole and self._fits and isinstance(pick, Picks) and use_triton(hidden)):
            return super().forward(hidden, first, pick)
        if adapted(self.decoder):
            return super().forward(hidden, first, pick)
        if self._stacked is None:
            parts = self.codes.weight, self.heads
            self._stacked = Stacked.of(self.decoder, self.project, *parts)
        return predict(self._stacked, torch.stack((hidden, first)), pick.noise, pick.depth)
