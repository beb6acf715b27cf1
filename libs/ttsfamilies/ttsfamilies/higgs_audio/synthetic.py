"""Higgs Audio: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, drawn_sound, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import write_llama_tokenizer
from ttsfamilies.higgs_audio.codec import HiggsDecoder
from ttsfamilies.higgs_audio.codec import sources as decoder_sources
from ttsfamilies.higgs_audio.encoder import HiggsEncoder, encoder_sources
from ttsfamilies.higgs_audio.net import V2, HiggsConfig, HiggsNet, load_config, sources
from ttsfamilies.higgs_audio.sizes import KIND, THIRD_KIND, load_sizes

SECOND, THIRD = "v2", "v3"
Heads = tuple[int, int, int]
# Heads, KV heads and head_dim.
SMALL: Final[Heads] = (4, 2, 8)
PUBLISHED: Final[dict[str, Heads]] = {SECOND: (24, 8, 128), THIRD: (32, 8, 128)}
_IDS: Final = 1026
_HEADS: Final = {
    SECOND: "audio_lm_head.weight",
    THIRD: "tied.embedding.modality_embeddings.0.embedding.weight",
}
_ADDED: Final = {
    SECOND: {
        "<|begin_of_text|>": 128_000,
        "<|start_header_id|>": 128_006,
        "<|end_header_id|>": 128_007,
        "<|eot_id|>": 128_009,
        "<|audio_eos|>": 128_012,
        "<|audio_out_bos|>": 128_013,
        "<|reserved_special_token_6|>": 128_014,
        "<|AUDIO_OUT|>": 128_016,
        "<|scene_desc_start|>": 128_018,
        "<|scene_desc_end|>": 128_019,
    },
    THIRD: {
        name: 151_670 + i
        for i, name in enumerate(
            ("<|tts|>", "<|ref_text|>", "<|ref_audio|>", "<|text|>", "<|audio|>")
        )
    },
}


def config(kind: str, codebooks: int, heads: Heads = SMALL) -> dict[str, Any]:
    """A config.json."""
    sizes = {
        "hidden_size": max(32, 2 * heads[0]),
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        **dict(zip(("num_attention_heads", "num_key_value_heads", "head_dim"), heads, strict=True)),
        "hidden_act": "silu",
    }
    if kind == THIRD:
        text = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 32_768}
        return {
            "architectures": ["HiggsMultimodalQwen3ForConditionalGeneration"],
            "model_type": THIRD_KIND,
            "audio_token_id": -100,
            "audio_encoder_config": {
                "num_codebooks": codebooks,
                "vocab_size": _IDS,
                "tie_word_embeddings": True,
            },
            "text_config": {"model_type": "qwen3", "vocab_size": 151_936, **sizes, **text},
        }
    return {
        "architectures": ["HiggsAudioV2ForConditionalGeneration"],
        "model_type": V2,
        "vocab_size": 128_256,
        **sizes,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 32.0,
            "low_freq_factor": 0.125,
            "high_freq_factor": 0.5,
            "original_max_position_embeddings": 1024,
        },
        "num_codebooks": codebooks,
        "codebook_size": _IDS,
        "audio_token_id": 128_016,
        "audio_bos_token_id": 128_013,
        "audio_delay_token_id": 128_014,
        "audio_stream_bos_id": _IDS - 2,
        "audio_stream_eos_id": _IDS - 1,
        "pad_token_id": 128_001,
        "eos_token_id": 128_009,
        "dtype": "float32",
    }


def write_checkpoint(
    folder: Path,
    *,
    kind: str = SECOND,
    seed: int = 0,
    codebooks: int = 8,
    heads: Heads = SMALL,
    ending: float = 1.0,
    strays: float = 0.1,
) -> None:
    """Write a whole talker. ending: how loudly codebook 0 asks for the end. strays: the others."""
    dump_json(folder / "config.json", config(kind, codebooks, heads))
    if kind == SECOND:
        settings = {"ras_win_len": 7, "ras_win_max_num_repeat": 2, "pad_token_id": 128_001}
        dump_json(folder / "generation_config.json", settings | {"eos_token_id": 128_009})
    write_llama_tokenizer(folder, _ADDED[kind])
    c = load_config(folder)
    tensors = dict(drawn(shapes_of(sources, HiggsNet, c), seed))
    _quiet(tensors[_HEADS[kind]], c, ending, strays)
    save(folder, tensors.items())


def _quiet(head: Tensor, c: HiggsConfig, ending: float, strays: float) -> None:
    """Ids that are no codes are rarely the likeliest, or else every speech would end at once."""
    rows = head.view(c.codebooks, c.ids, -1)
    rows[:, c.begin] *= 0.1
    rows[1:, c.end] *= strays
    rows[0, c.end] *= ending


TINY: Final[dict[str, Any]] = {
    "model_type": KIND,
    "acoustic_model_config": {
        "model_type": "dac",
        "encoder_hidden_size": 2,
        "downsampling_ratios": [8, 5, 4, 2, 3],
        "decoder_hidden_size": 64,
        "upsampling_ratios": [8, 5, 4, 2, 3],
        "hidden_size": 16,
        "codebook_dim": 4,
        "n_codebooks": 2,
    },
    "semantic_model_config": {
        "model_type": "hubert",
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "conv_dim": [8] * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
        "mask_time_prob": 0.0,
    },
    "codebook_size": 1024,
    "codebook_dim": 8,
    "target_bandwidths": [0.5, 1, 1.5, 2],
    "sample_rate": 24_000,
}


def write_codec(folder: Path, *, seed: int = 0) -> None:
    """Write config.json and model.safetensors, encoder and decoder."""
    folder.mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", TINY)
    sizes, _ = load_sizes(folder)
    shapes = shapes_of(decoder_sources, HiggsDecoder, sizes)
    shapes |= shapes_of(encoder_sources, HiggsEncoder, sizes)
    tensors = {name: _drawn(name, shape, seed) for name, shape in shapes.items()}
    save(folder, tensors.items())


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """HuBERT's norms and its folded convolution beside what DAC has."""
    values = drawn_sound(name, shape, seed)
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.1 * values
    return values.abs() if name.endswith("original0") else values


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A talker, which is served with a codec of its own folder, or that codec."""
    if kind == "codec":
        write_codec(folder, seed=seed)
    else:
        write_checkpoint(folder, kind=kind, seed=seed)


FAMILY: Final = SyntheticFamily(
    write_family, "a talker, or the codec that it is served with", kinds=(SECOND, THIRD, "codec")
)
