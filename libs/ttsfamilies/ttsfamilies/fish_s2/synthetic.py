"""Fish Audio S2: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn, drawn_sound, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import write_llama_tokenizer
from ttsfamilies.fish_s2.codec import FishDecoder
from ttsfamilies.fish_s2.codec import sources as decoder_sources
from ttsfamilies.fish_s2.config import CODEC, FOLDER, load_config, load_sizes
from ttsfamilies.fish_s2.facts import KIND
from ttsfamilies.fish_s2.family import FAST, SLOW, FishNet, sources

# Heads, KV heads and head_dim, of both transformers.
SMALL: Final = (4, 2, 8)
PUBLISHED: Final = (32, 8, 128)
FIRST, CODES = 151_678, 4096
_ADDED: Final = {
    "<|im_start|>": 151_644,
    "<|im_end|>": 151_645,
    "<|phoneme_start|>": 151_671,
    "<|phoneme_end|>": 151_672,
    "<|voice|>": 151_674,
    "<|audio_pad|>": 151_677,
}
_EMBEDDINGS: Final = f"{SLOW}embeddings.weight"
_DIM: Final = 32
TINY: Final[dict[str, Any]] = {
    "latent": 16,
    "layers": 2,
    "heads": 2,
    "head_dim": 8,
    "hidden": 24,
    "window": 6,
    "decoder": 16,
}


def config(codebooks: int, heads: tuple[int, int, int] = SMALL) -> dict[str, Any]:
    """A config.json, the codec's sizes included, which published ones leave out."""
    stack = {
        "dim": _DIM,
        "intermediate_size": 96,
        **dict(zip(("n_head", "n_local_heads", "head_dim"), heads, strict=True)),
        "norm_eps": 1e-6,
        "rope_base": 1_000_000,
        "attention_qkv_bias": False,
        "attention_o_bias": False,
        "use_moe": False,
    }
    return {
        "architectures": ["FishQwen3OmniForCausalLM"],
        "model_type": KIND,
        "text_config": {
            "model_type": "fish_qwen3",
            **stack,
            "n_layer": 2,
            "vocab_size": FIRST + CODES + 2,
            "max_seq_len": 32_768,
            "attention_qk_norm": True,
            "tie_word_embeddings": True,
        },
        "audio_decoder_config": {
            "model_type": "fish_qwen3_audio_decoder",
            **stack,
            "n_layer": 1,
            "vocab_size": CODES,
            "max_seq_len": 11,
            "attention_qk_norm": False,
            "tie_word_embeddings": False,
            "num_codebooks": codebooks,
            "text_dim": _DIM,
        },
        "audio_pad_token_id": 151_677,
        "eos_token_id": _ADDED["<|im_end|>"],
        "pad_token_id": 151_669,
        "semantic_start_token_id": FIRST,
        "semantic_end_token_id": FIRST + CODES - 1,
        "codec_config": TINY | {"residuals": codebooks - 1},
        "dtype": "float32",
    }


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    codebooks: int = 10,
    heads: tuple[int, int, int] = SMALL,
    ending: float = 1.0,
) -> None:
    """Write a talker without its codec. ending: how loudly it asks for the end."""
    dump_json(folder / "config.json", config(codebooks, heads))
    write_llama_tokenizer(folder, _ADDED)
    tensors = dict(drawn(shapes_of(sources, FishNet, load_config(folder)), seed))
    tensors[_EMBEDDINGS][_ADDED["<|im_end|>"]] *= ending
    tensors[f"{FAST}output.weight"] *= _DIM**0.5
    save(folder, tensors.items())


def add_codec(folder: Path, *, seed: int = 0) -> None:
    """Write the codec's decoder beside its talker, or by itself in a folder without one."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "config.json").exists():
        dump_json(folder / "config.json", config(10))
    shapes = shapes_of(decoder_sources, FishDecoder, load_sizes(folder))
    tensors = {name: _drawn(name, shape, seed) for name, shape in shapes.items()}
    save_file(tensors, folder / f"{CODEC}.safetensors", {"format": "pt"})


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    values = drawn_sound(name, shape, seed)
    if name.endswith(("original0", "weight_g")):  # lengths: residual units add up
        return 0.75 + 0.06 * values
    if name.endswith("norm.weight"):
        return 1 + 0.1 * values
    return 0.3 + 0.05 * values if name.endswith("gamma") else values


def add_voice(folder: Path, name: str, codes: npt.NDArray[Any], words: str) -> None:
    """A recording's codes [frames, codebooks], as the authors' encoder writes them, and its words.

    name: may lead into a folder of several speakers.
    """
    path = folder / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path.with_suffix(".npy"), codes.T)
    path.with_suffix(".txt").write_text(words + "\n", "utf-8")


FAMILY: Final = SyntheticFamily(of_parts(write_checkpoint, add_codec), "a talker and its codec")
