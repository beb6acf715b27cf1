"""The transformers of Fish Audio S2, in its talker and its codec, by their published names.

All of them rotate neighbouring channels, by tables that are rounded to bfloat16. Here they rotate
halves, of heads whose channels are put in that order when they are loaded: products of queries and
keys are the same, and kernels that rotate halves serve them.
"""

from __future__ import annotations

from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.weights import Source, same


def stack_sources(c: DecoderConfig, ours: str, theirs: str) -> dict[str, Source]:
    """Every parameter of a `Decoder`; what both begin with, dot included."""
    found = {f"{ours}norm.weight": same(f"{theirs}norm.weight")}
    for layer in range(c.layers):
        block = _block_sources(c, f"{theirs}layers.{layer}.")
        found |= {f"{ours}blocks.{layer}.{key}": source for key, source in block.items()}
    return found


def _block_sources(c: DecoderConfig, theirs: str) -> dict[str, Source]:
    attention, mlp = f"{theirs}attention.", f"{theirs}feed_forward."
    rotated = (c.heads + c.kv_heads) * c.head_dim
    found = {
        "attention_norm.weight": same(f"{theirs}attention_norm.weight"),
        "mlp_norm.weight": same(f"{theirs}ffn_norm.weight"),
        "attention.qkv.weight": Source((f"{attention}wqkv.weight",), paired=(rotated, c.head_dim)),
        "attention.out.weight": same(f"{attention}wo.weight"),
        "mlp.gate_up.weight": Source(
            (f"{mlp}w1.weight", f"{mlp}w3.weight"), rows=(c.hidden, c.hidden)
        ),
        "mlp.down.weight": same(f"{mlp}w2.weight"),
    }
    if c.qk_norm:
        for part in ("q_norm", "k_norm"):
            name = (f"{attention}{part}.weight",)
            found[f"attention.{part}.weight"] = Source(name, paired=(c.head_dim, c.head_dim))
    if c.layer_scale:
        found["attention_scale.weight"] = same(f"{theirs}attention_layer_scale.gamma")
        found["mlp_scale.weight"] = same(f"{theirs}ffn_layer_scale.gamma")
    return found
