"""The shared decoder block is Llama's, Qwen2's and Qwen3's."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.parity.material import arrays, weight
from ttscommon.engine.nn import Decoder, DecoderConfig, Llama3Scaling, RopeConfig, dense_attention
from ttscommon.engine.nn.weights import decoder_sources

TOKENS = 12
DIM = 48
SIZES: dict[str, Any] = {
    "dim": DIM, "layers": 2, "heads": 6, "kv_heads": 2, "head_dim": 8, "hidden": 80
}  # fmt: skip
CONFIGS = {
    "llama3": DecoderConfig(
        **SIZES, rope=RopeConfig(5e5, scaling=Llama3Scaling(32.0, 1.0, 4.0, 64))
    ),
    "qwen2": DecoderConfig(**SIZES, rope=RopeConfig(1e6), qkv_bias=True),
    "qwen3": DecoderConfig(**SIZES, rope=RopeConfig(1e6), qk_norm=True),
}


def filled(config: DecoderConfig) -> Decoder:
    """With the goldens' weights, drawn by their published names."""
    net = Decoder(config)
    sources, state = decoder_sources(config, "", ""), net.state_dict()
    assert sources.keys() == state.keys()
    for key, source in sources.items():
        shapes = source.shapes(state[key].shape)
        parts = [torch.from_numpy(weight(1, name, shapes[name])) for name in source.names]
        state[key].copy_(source.join(parts))
    return net


@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_are_those_of_transformers(name: str) -> None:
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    x = torch.from_numpy(weight(0, "inputs", (1, TOKENS, DIM)))[0]
    with torch.inference_mode():
        out = filled(CONFIGS[name])(
            x,
            1000 + torch.arange(TOKENS),
            lambda _, q, k, v: dense_attention(q, k, v, visible),
        )
    assert np.abs(out.numpy() - arrays("library")[name]).max() < 1e-5
