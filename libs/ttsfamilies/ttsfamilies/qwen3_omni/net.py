"""The Qwen3-Omni talker: rows of the thinker and codec ids to codec frames.

Qwen3-TTS's frame, behind a backbone of experts whose positions have three numbers.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ttscommon.engine.nn import Attend, Decoder, DecoderConfig
from ttscommon.engine.nn.experts import ExpertMixture, ExpertSizes
from ttsfamilies.qwen3_omni.config import MixtureSizes, OmniConfig
from ttsfamilies.qwen3_tts.net import FrameNet, TextProjection, backbone_config

# What a position's row is.
NO_ROW, EMBEDDING, STATE = range(3)


def mixture(c: MixtureSizes) -> ExpertSizes:
    """Of one layer."""
    return ExpertSizes(
        dim=c.hidden_size,
        experts=c.num_experts,
        chosen=c.num_experts_per_tok,
        hidden=c.moe_intermediate_size,
        shared=c.shared_expert_intermediate_size,
        renormalised=c.norm_topk_prob,
    )


def stack_config(config: OmniConfig) -> DecoderConfig:
    """The backbone but for its experts."""
    time, height, width = config.talker_config.text_config.sections
    plain = backbone_config(config.as_talker().talker_config)
    return replace(plain, rope=replace(plain.rope, sections=(time, height, width)))


class OmniNet(FrameNet):
    """pad: [thinker dim], the row of text that is over."""

    pad: Tensor

    def __init__(self, config: OmniConfig) -> None:
        super().__init__()
        c = config.talker_config
        sizes, text = mixture(c.text_config), c.text_config
        widths = (c.thinker_hidden_size, text.hidden_size, text.intermediate_size)
        self.text_projection = TextProjection(*widths)
        self.hidden_projection = TextProjection(*widths)
        backbone = Decoder(stack_config(config), lambda _: ExpertMixture(sizes))
        self.add_frame_parts(config.as_talker(), backbone)
        self.register_buffer("pad", torch.zeros(c.thinker_hidden_size), persistent=False)

    def embed_rows(self, rows: Tensor, kinds: Tensor) -> Tensor:
        """Rows [tokens, thinker dim] of any kind [tokens] -> [tokens, dim]."""
        rows, kind = rows.to(self.codec.weight.dtype), kinds[:, None]
        said = torch.where(kind == STATE, self.hidden_projection(rows), self.text_projection(rows))
        return torch.where(kind == NO_ROW, 0, said)

    def step_input(self, codes: Tensor, row: Tensor) -> Tensor:
        """What the backbone hears at a decode step.

        codes: [rows, codebooks] int64, the frame before; row: [rows, thinker dim], what is said at
        this step. Returns [rows, dim].
        """
        row = row.to(self.codec.weight.dtype)
        return self.embed_frame(codes) + self.text_projection(row)

    def hidden(self, x: Tensor, places: Tensor, attend: Attend) -> Tensor:
        """Backbone states [tokens, dim] of inputs [tokens, dim] at places [tokens, 3]."""
        return self.backbone(x, places, attend)
