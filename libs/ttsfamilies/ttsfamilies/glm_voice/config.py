"""A GLM-4-Voice checkpoint's configs, of the language model and of what hears. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json

TOKENIZER: Final = "glm-4-voice-tokenizer"
"""Folder within the checkpoint of what hears, named as it is published."""
SAMPLE_RATE: Final = 22_050
RATE_HZ: Final = 12.5
MOST_POSITIONS: Final = 8192
_THETA: Final = 10_000.0


@dataclass(frozen=True)
class GlmConfig:
    """config.json of the language model, by ChatGLM's names."""

    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    multi_query_group_num: int
    kv_channels: int
    layernorm_epsilon: float
    padded_vocab_size: int
    seq_length: int
    model_type: str = "chatglm"
    rope_ratio: float = 1.0
    rmsnorm: bool = True
    post_layer_norm: bool = True
    add_qkv_bias: bool = True
    add_bias_linear: bool = False
    multi_query_attention: bool = True
    original_rope: bool = True
    apply_residual_connection_post_layernorm: bool = False
    tie_word_embeddings: bool = False

    @property
    def theta(self) -> float:
        return _THETA * self.rope_ratio

    @property
    def positions(self) -> int:
        return min(self.seq_length, MOST_POSITIONS)


@dataclass(frozen=True)
class HearingConfig:
    """config.json of what hears: a Whisper encoder as far as its codebook."""

    num_mel_bins: int
    d_model: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    max_source_positions: int
    pooling_kernel_size: int
    pooling_position: int
    pooling_type: str
    quantize_vocab_size: int
    quantize_position: int
    quantize_causal_block_size: int
    encoder_causal_convolution: bool


def load_config(folder: Path) -> GlmConfig:
    """Read and check config.json; raises CheckpointError."""
    path = folder / "config.json"
    c = read_json(path, GlmConfig)
    usual = c.rmsnorm and c.post_layer_norm and c.multi_query_attention and c.original_rope
    unusual = c.add_bias_linear or c.apply_residual_connection_post_layernorm
    if not usual or unusual or c.tie_word_embeddings or not c.add_qkv_bias:
        raise CheckpointError(f"{path}: other layers than GLM-4's are not served")
    if c.num_attention_heads % c.multi_query_group_num or c.kv_channels % 4:
        raise CheckpointError(f"{path}: its heads fit no groups, or no rotation")
    return c


def load_hearing_config(folder: Path) -> HearingConfig:
    """Read and check config.json in the folder of what hears; raises CheckpointError."""
    path = folder / TOKENIZER / "config.json"
    c = read_json(path, HearingConfig)
    if c.pooling_type != "avg" or c.pooling_position != c.quantize_position:
        raise CheckpointError(f"{path}: other pooling than by averages at the end is not served")
    if not c.encoder_causal_convolution or c.num_mel_bins != 128:
        raise CheckpointError(f"{path}: other convolutions than causal ones of 128 mel bands")
    if c.quantize_causal_block_size % c.pooling_kernel_size:
        raise CheckpointError(f"{path}: blocks that are no whole tokens")
    return c
