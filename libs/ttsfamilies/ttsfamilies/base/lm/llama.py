"""Sizes of stacks of blocks, as transformers writes them. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttscommon.engine.codec_sizes import head_problems, size_problems
from ttsfamilies.base.talker.base import CacheSpec


@dataclass(frozen=True, kw_only=True)
class StackSizes:
    """Part of a config.json: a stack of blocks. head_dim, rope_theta: None where files may lack
    them; without the latter theta is 0.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int | None
    rms_norm_eps: float
    rope_theta: float | None
    attention_bias: bool = False

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def cache(self) -> CacheSpec:
        """Of all of its layers."""
        return CacheSpec(
            *(self.num_hidden_layers, self.num_attention_heads, self.num_key_value_heads),
            self.head_size,
        )

    @property
    def qkv_bias(self) -> bool:
        """Whether queries, keys and values have biases."""
        return self.attention_bias

    @property
    def theta(self) -> float:
        return float(self.rope_theta or 0.0)

    @property
    def scaling(self) -> Mapping[str, Any]:
        """Of the rotation, empty where there is none."""
        return {}

    def problems(self) -> list[str]:
        """What no stack can have, and kinds of it that are not served."""
        heads = self.num_attention_heads, self.num_key_value_heads
        return size_problems(self) or head_problems(*heads, self.head_size)


@dataclass(frozen=True, kw_only=True)
class LlamaSizes(StackSizes):
    """A Llama 3."""

    vocab_size: int
    max_position_embeddings: int
    model_type: str = "llama"
    hidden_act: str = "silu"
    head_dim: int | None = None
    rms_norm_eps: float = 1e-5
    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] | None = None
    tie_word_embeddings: bool = False
    mlp_bias: bool = False

    @property
    def scaling(self) -> Mapping[str, Any]:
        found = self.rope_scaling or {}
        plain = found.get("rope_type", found.get("type", "default")) == "default"
        return {} if plain else found

    def problems(self) -> list[str]:
        found = []
        if self.hidden_act != "silu" or self.attention_bias or self.mlp_bias:
            found.append("other activations and biases are not served")
        if self.rope_theta is None:
            found.append("rope_theta is missing")
        if self.scaling and self.scaling.get("rope_type", self.scaling.get("type")) != "llama3":
            found.append(f"rope_scaling {dict(self.scaling)} is not served")
        return [*found, *super().problems()]


@dataclass(frozen=True, kw_only=True)
class Qwen2Sizes(LlamaSizes):
    """A Qwen2."""

    model_type: str = "qwen2"

    @property
    def qkv_bias(self) -> bool:
        return True
