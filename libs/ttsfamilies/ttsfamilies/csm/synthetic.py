"""CSM: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.mimi import MimiEncoder, encoder_sources
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import SHARD_BYTES, codebook_flags, drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import write_llama_tokenizer
from ttsfamilies.csm.family import CODEC, CsmNet, sources
from ttsfamilies.csm.mimi import synthetic as mimi
from ttsfamilies.csm.request import END_CODE, load_config

# How loudly a code of the end asks for the next.
_FOLLOWING: Final = 12.0
_HEADS: Final = "depth_decoder.codebooks_head.weight"
_TABLE: Final = "depth_decoder.model.embed_tokens.weight"
_PROJECT: Final = "depth_decoder.model.inputs_embeds_projector.weight"
# (heads, KV heads, head_dim) of the backbone and of the depth decoder.
SMALL: Final = ((4, 2, 8), (2, 1, 12))
PUBLISHED: Final = ((32, 8, 64), (8, 2, 128))


def config(codebooks: int, heads: tuple[tuple[int, int, int], ...] = SMALL) -> dict[str, Any]:
    """A config.json."""
    backbone, depth = heads
    codes = {"num_codebooks": codebooks, "vocab_size": 2051}
    return {
        "architectures": ["CsmForConditionalGeneration"],
        "model_type": "csm",
        **_llama(32, 48, backbone, (1024, 0.125, 0.5)),
        **codes,
        "text_vocab_size": 128_256,
        "max_position_embeddings": 2048,
        "bos_token_id": 128_000,
        "pad_token_id": 128_002,
        "audio_token_id": 128_002,
        "audio_eos_token_id": 128_003,
        "codebook_eos_token_id": END_CODE,
        "codebook_pad_token_id": 2050,
        "tie_codebooks_embeddings": True,
        "depth_decoder_config": {
            "model_type": "csm_depth_decoder_model",
            **_llama(24, 40, depth, (16, 0.001953125, 0.0078125)),
            **codes,
            "backbone_hidden_size": 32,
            "max_position_embeddings": codebooks + 1,
        },
        "codec_config": codec_config(codebooks),
        "torch_dtype": "float32",
    }


def _llama(
    dim: int, hidden: int, heads: tuple[int, int, int], rope: tuple[int, float, float]
) -> dict[str, Any]:
    original, low, high = rope
    return {
        "hidden_size": dim,
        "intermediate_size": hidden,
        "num_hidden_layers": 2,
        **dict(zip(("num_attention_heads", "num_key_value_heads", "head_dim"), heads, strict=True)),
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        },
    }


def codec_config(codebooks: int) -> dict[str, Any]:
    """Of a Mimi, whose rates are the published ones."""
    return {
        **mimi.TINY,
        "frame_rate": 12.5,
        "vector_quantization_hidden_dimension": 16,
        "num_quantizers": codebooks,
        "rope_theta": 10_000.0,
    }


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    codebooks: int = 32,
    heads: tuple[tuple[int, int, int], ...] = SMALL,
    ending: float = 0.0,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write all but the codec's decoder. ending: how loudly codebook 0 asks for the end, which
    the others then follow; 0 leaves them alone.
    """
    dump_json(folder / "config.json", config(codebooks, heads))
    dump_json(folder / "generation_config.json", {"do_sample": True, "depth_decoder_top_k": 50})
    write_llama_tokenizer(folder)
    c = load_config(folder)
    hears = partial(encoder_sources, theirs=CODEC)
    shapes = shapes_of(sources, CsmNet, c)
    shapes |= shapes_of(hears, MimiEncoder, c.codec_config, codebooks, None)
    shapes |= codebook_flags(CODEC, codebooks)
    tensors = dict(drawn(shapes, seed))
    tensors[_HEADS] *= c.vocab_size**0.5  # drawn for all of its rows and columns
    if ending:
        _end(tensors, ending, c.vocab_size)
    save(folder, tensors.items(), shard_bytes)


def _end(tensors: dict[str, Tensor], loudness: float, ids: int) -> None:
    """Let each code of the end bring about the next: all are embedded alike, and ask for it."""
    tensors["lm_head.weight"][END_CODE] *= loudness
    tensors[_TABLE][END_CODE::ids] = tensors[_TABLE][END_CODE].clone()
    next_one = tensors[_PROJECT] @ tensors[_TABLE][END_CODE]
    tensors[_HEADS][:, :, END_CODE] = _FOLLOWING * next_one / next_one.norm()


FAMILY: Final = SyntheticFamily(
    of_parts(write_checkpoint, mimi.add_decoder), "a talker and its codec"
)
