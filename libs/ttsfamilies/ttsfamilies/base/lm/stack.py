"""The stack of blocks that sizes describe."""

from __future__ import annotations

from ttscommon.engine.nn import DecoderConfig, Llama3Scaling, RopeConfig
from ttsfamilies.base.lm.llama import StackSizes


def decoder_config(c: StackSizes) -> DecoderConfig:
    """The stack of blocks."""
    s = c.scaling
    scaling = s and Llama3Scaling(
        s["factor"],
        s["low_freq_factor"],
        s["high_freq_factor"],
        s["original_max_position_embeddings"],
    )
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_size,
        hidden=c.intermediate_size,
        eps=c.rms_norm_eps,
        rope=RopeConfig(theta=c.theta, scaling=scaling or None),
        qkv_bias=c.attention_bias,
        out_bias=c.attention_bias,
    )
