"""GLM-4's language model: published fused products are what the shared block wants."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, same
from ttsfamilies.glm_voice.config import GlmConfig, load_config

_LAYER: Final = {
    "attention_norm.weight": "input_layernorm.weight",
    "attention.qkv.weight": "self_attention.query_key_value.weight",
    "attention.qkv.bias": "self_attention.query_key_value.bias",
    "attention.out.weight": "self_attention.dense.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
    "mlp.gate_up.weight": "mlp.dense_h_to_4h.weight",
    "mlp.down.weight": "mlp.dense_4h_to_h.weight",
}
_BUFFERS: Final = ("transformer.rotary_pos_emb.",)


class GlmNet(nn.Module):
    """Ids to hidden states, and those to logits of the whole vocabulary."""

    def __init__(self, config: GlmConfig) -> None:
        super().__init__()
        c = self.config = config
        self.embedding = nn.Embedding(c.padded_vocab_size, c.hidden_size)
        self.backbone = Decoder(
            DecoderConfig(
                dim=c.hidden_size,
                layers=c.num_layers,
                heads=c.num_attention_heads,
                kv_heads=c.multi_query_group_num,
                head_dim=c.kv_channels,
                hidden=c.ffn_hidden_size,
                eps=c.layernorm_epsilon,
                rope=RopeConfig(theta=c.theta, interleaved=True, share=0.5),
                qkv_bias=True,
            )
        )
        self.head = nn.Linear(c.hidden_size, c.padded_vocab_size, bias=False)

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Ids [tokens] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(self.embedding(ids), positions, attend)
        return states


def sources(net: GlmNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "embedding.weight": same("transformer.embedding.word_embeddings.weight"),
        "backbone.norm.weight": same("transformer.encoder.final_layernorm.weight"),
        "head.weight": same("transformer.output_layer.weight"),
    }
    for layer in range(net.config.num_layers):
        ours, theirs = f"backbone.blocks.{layer}.", f"transformer.encoder.layers.{layer}."
        found |= {ours + own: same(theirs + name) for own, name in _LAYER.items()}
    return found


def load_net(checkpoint: Path, device: str, dtype: str) -> GlmNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    with torch.device("meta"):
        net = GlmNet(config).to(getattr(torch, dtype))
    return filled(net, sources(net), Shards.of(checkpoint), others=_BUFFERS, device=device)
