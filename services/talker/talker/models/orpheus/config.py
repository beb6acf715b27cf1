"""What an Orpheus checkpoint says of itself, and the ids that all of them share. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import CheckpointError, read_json

SLOTS: Final = 7
CODES: Final = 4096
BEGIN_TEXT: Final = 128_000
END_TURN: Final = 128_009
BEGIN_SPEECH: Final = 128_257
END_SPEECH: Final = 128_258
BEGIN_HUMAN: Final = 128_259
END_HUMAN: Final = 128_260
BEGIN_MODEL: Final = 128_261
FIRST_AUDIO: Final = 128_266
END_AUDIO: Final = FIRST_AUDIO + SLOTS * CODES
# Sequences in training were no longer.
MOST_POSITIONS: Final = 8192


@dataclass(frozen=True)
class LlamaConfig:
    """config.json. Older files name rope_theta and rope_scaling, newer ones rope_parameters."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    model_type: str = "llama"
    hidden_act: str = "silu"
    head_dim: int | None = None
    rms_norm_eps: float = 1e-5
    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] | None = None
    rope_parameters: Mapping[str, Any] = field(default_factory=dict)
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def theta(self) -> float:
        """Of the rotation; raises KeyError where no file names it."""
        if self.rope_theta is not None:
            return self.rope_theta
        return float(self.rope_parameters["rope_theta"])

    @property
    def scaling(self) -> Mapping[str, Any]:
        """Of the rotation, empty where there is none."""
        found = self.rope_scaling or self.rope_parameters
        plain = found.get("rope_type", found.get("type", "default")) == "default"
        return {} if plain else found

    @property
    def positions(self) -> int:
        return min(self.max_position_embeddings, MOST_POSITIONS)


def load_config(folder: Path) -> LlamaConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, LlamaConfig)
    for wrong in _problems(config):
        raise CheckpointError(f"{path}: {wrong}")
    return config


def _problems(c: LlamaConfig) -> list[str]:
    found = []
    if c.model_type != "llama" or c.vocab_size < END_AUDIO:
        found.append(f"a {c.model_type} with {c.vocab_size} ids has no place for seven codebooks")
    if c.hidden_act != "silu" or c.attention_bias or c.mlp_bias:
        found.append("other activations and biases are not served")
    if c.rope_theta is None and "rope_theta" not in c.rope_parameters:
        found.append("rope_theta is missing")
    if c.scaling and c.scaling.get("rope_type", c.scaling.get("type")) != "llama3":
        found.append(f"rope_scaling {dict(c.scaling)} is not served")
    return found
