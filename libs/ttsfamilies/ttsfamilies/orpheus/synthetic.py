"""Orpheus: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.lm.stepped import LlamaNet, sources
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import write_llama_tokenizer
from ttsfamilies.orpheus.family import END_SPEECH, load_config

TINY: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 156_940,
    "hidden_size": 36,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "tie_word_embeddings": True,
    "bos_token_id": 128_000,
    "eos_token_id": END_SPEECH,
    "torch_dtype": "float32",
}

PUBLISHED_HEADS: Final = MappingProxyType(
    {"num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128}
)


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    ending: float = 1.0,
    heads: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Write a whole talker. ending: how loudly the end of speech speaks among the logits.

    heads: in place of TINY's, such as PUBLISHED_HEADS.
    """
    dump_json(folder / "config.json", TINY | dict(heads))
    write_llama_tokenizer(folder)
    shapes = shapes_of(sources, LlamaNet, load_config(folder))
    louder = {"model.embed_tokens.weight": (END_SPEECH, ending)}
    save(folder, drawn(shapes, seed, louder))


FAMILY: Final = SyntheticFamily(of_parts(write_checkpoint), "a talker; its codec is a snac")
