"""Goldens of the shared decoder block: hidden states of small transformers models."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaModel,
    PreTrainedModel,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
)

from tests.parity.material import weight

TOKENS = 12
SIZES = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "head_dim": 8,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def models() -> dict[str, PreTrainedModel]:
    """One model for each switch of the block."""
    return {
        "llama3": LlamaModel(LlamaConfig(**SIZES, rope_theta=5e5, rope_scaling=LLAMA3)),
        "qwen2": Qwen2Model(Qwen2Config(**SIZES, rope_theta=1e6)),
        "qwen3": Qwen3Model(Qwen3Config(**SIZES, rope_theta=1e6)),
    }


def goldens() -> dict[str, Any]:
    """[TOKENS, hidden] of each, at positions 1000 .. 1011, where scaling shows."""
    found: dict[str, Any] = {}
    x = torch.from_numpy(weight(0, "inputs", (1, TOKENS, SIZES["hidden_size"])))
    positions = 1000 + torch.arange(TOKENS)[None]
    for name, model in models().items():
        for key, parameter in model.state_dict().items():
            parameter.copy_(torch.from_numpy(weight(1, key, tuple(parameter.shape))))
        model.set_attn_implementation("eager")
        with torch.inference_mode():
            out = model(inputs_embeds=x, position_ids=positions, use_cache=False)
        found[name] = out.last_hidden_state[0].numpy()
    return found
