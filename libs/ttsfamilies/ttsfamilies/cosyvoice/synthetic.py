"""CosyVoice's language model and what it hears: published names, small shapes, drawn weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.facts import read_header
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.s3.synthetic import write_speaker, write_tokens
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, shapes_of
from ttsfamilies.base.synthetic.tokenizers import vocabulary, write_qwen2_tokenizer
from ttsfamilies.cosyvoice.family import CosyNet, sources
from ttsfamilies.cosyvoice.request import BACKBONE, END_OF_PROMPT, V2, V3, load_sizes
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec

# (heads, KV heads, head_dim).
SMALL: Final = (4, 2, 8)
PUBLISHED: Final = (14, 2, 64)


def config(heads: tuple[int, int, int] = SMALL) -> dict[str, Any]:
    """The backbone's config.json."""
    count, kv_heads, head_dim = heads
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": END_OF_PROMPT + 20,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": count,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    }


def write_checkpoint(
    folder: Path,
    *,
    version: int = 2,
    heads: tuple[int, int, int] = SMALL,
    seed: int = 0,
    ending: float = 1.0,
    filling: float = 1.0,
) -> None:
    """Write all but flow and vocoder. ending, filling: how loudly the head asks for the end, and
    for more text; for no other id that is no token it asks at all.
    """
    rows = V2 if version == 2 else V3
    (folder / BACKBONE).mkdir(parents=True, exist_ok=True)
    dump_json(folder / BACKBONE / "config.json", config(heads))
    write_qwen2_tokenizer(folder / BACKBONE, vocabulary())
    write_tokens(folder / f"speech_tokenizer_v{version}.onnx", version=version, seed=seed)
    write_speaker(folder / "campplus.onnx", seed=seed)
    tensors = dict(drawn(shapes_of(sources, CosyNet, load_sizes(folder), rows), seed))
    end = TOKENS if version == 2 else TOKENS + 1
    head = tensors["llm_decoder.weight"]
    head *= 3.0  # draws that mostly lie within the nucleus
    loudness = torch.zeros(rows.count - TOKENS)
    loudness[end - TOKENS], loudness[rows.fill - TOKENS] = ending, filling
    head[TOKENS:] *= loudness[:, None]
    save_file(tensors, folder / "llm.safetensors", {"format": "pt"})
    write_index(folder)


def write_index(folder: Path) -> None:
    """model.safetensors.index.json over all that the folder has."""
    names = {
        name: path.name
        for path in sorted(folder.glob("*.safetensors"))
        for name in read_header(path)
        if name != "__metadata__"
    }
    dump_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": names})


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load, of version 2 or of 3; it ends its speech by itself."""
    version = 3 if kind == "v3" else 2
    write_codec(folder, f"cosyvoice{version}", seed=seed)
    (folder / "model.safetensors").rename(folder / "flow.safetensors")
    write_checkpoint(folder, version=version, seed=seed, ending=2.0, filling=1.5)


FAMILY: Final = SyntheticFamily(write_family, "a talker and its codec", kinds=("v2", "v3"))
