"""Qwen3-Omni's speaking half: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import SPECIAL_TOKENS, vocabulary, write_qwen2_tokenizer
from ttsfamilies.qwen3_omni import codec
from ttsfamilies.qwen3_omni.config import load_config
from ttsfamilies.qwen3_omni.family import TABLE, OmniNet, sources
from ttsfamilies.qwen3_tts.sizes import stack

WIDTH: Final = 24
SPEAKERS: Final = {"chelsie": 2301, "ethan": 2302, "aiden": 2303}
# (heads, KV heads, head_dim, sections of it) of the backbone; the predictor's has more KV heads.
SMALL: Final = (4, 2, 8, (2, 1, 1))
PUBLISHED: Final = (16, 2, 128, (24, 20, 20))


def config(
    tokens: int, *, published: bool = False, renormalised: bool = True, codebooks: int = 16
) -> dict[str, Any]:
    """A config.json for so many tokens before the special ones. published: the counts of heads
    and experts are; widths are small all the same.
    """
    ids = {name: tokens + i for i, name in enumerate(SPECIAL_TOKENS)}
    return {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": True,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "thinker_config": {"text_config": {"hidden_size": WIDTH, "vocab_size": max(ids.values())}},
        "talker_config": _talker(ids, published, renormalised, codebooks),
        "code2wav_config": code2wav_config(codebooks),
        "dtype": "float32",
    }


def _talker(
    ids: dict[str, int], published: bool, renormalised: bool, codebooks: int
) -> dict[str, Any]:
    heads, kv_heads, head_dim, sections = PUBLISHED if published else SMALL
    return {
        "text_config": {
            **stack(32, 40, 2, heads, kv_heads, head_dim),
            "vocab_size": 3072,
            "max_position_embeddings": 32_768,
            "moe_intermediate_size": 12,
            "shared_expert_intermediate_size": 20,
            "num_experts": 128 if published else 8,
            "num_experts_per_tok": 6 if published else 3,
            "norm_topk_prob": renormalised,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "rope_scaling": {
                "interleaved": True,
                "mrope_section": list(sections),
                "rope_type": "default",
            },
        },
        "code_predictor_config": {
            **stack(32, 40, 2, heads, max(kv_heads, heads // 2), head_dim),
            "vocab_size": 2048,
            "num_code_groups": codebooks,
            "max_position_embeddings": 32_768,
        },
        "num_code_groups": codebooks,
        "thinker_hidden_size": WIDTH,
        "accept_hidden_layer": 24,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "audio_token_id": ids["<|audio_pad|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "audio_start_token_id": ids["<|audio_start|>"],
        "position_id_per_seconds": 13,
        "spatial_merge_size": 2,
        "speaker_id": SPEAKERS,
    }


def code2wav_config(codebooks: int = 16) -> dict[str, Any]:
    """The codec's, whose rates are the published ones."""
    return {
        "codebook_size": 2048,
        "num_quantizers": codebooks,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "attention_bias": False,
        "sliding_window": 6,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000,
        "decoder_dim": 32,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "layer_scale_initial_scale": 0.01,
    }


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    published: bool = False,
    renormalised: bool = True,
    codebooks: int = 16,
    ending: float = 1.0,
) -> None:
    """Write a whole checkpoint but for its thinker, of which only the embedding is there.

    ending: how loudly the end of speech speaks among the logits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocab = vocabulary()
    content = config(
        len(vocab), published=published, renormalised=renormalised, codebooks=codebooks
    )
    dump_json(folder / "config.json", content)
    write_qwen2_tokenizer(folder, vocab)
    known = load_config(folder)
    shapes = shapes_of(partial(sources, config=known), OmniNet, known)
    shapes |= shapes_of(codec.sources, codec.LaggingDecoder, codec.load_config(folder))
    shapes[TABLE] = (len(vocab) + len(SPECIAL_TOKENS), WIDTH)
    end = known.talker_config.codec_eos_token_id
    louder = {"talker.codec_head.weight": (end, ending)}
    tensors = drawn({_known(name): shape for name, shape in shapes.items()}, seed, louder)
    names = {_known(name): name for name in shapes}
    save(folder, ((names[name], tensor) for name, tensor in tensors))


def _known(name: str) -> str:
    """The waveform decoder as Qwen3-TTS calls it: `drawn` keeps it quiet by that name."""
    return name.replace("code2wav.decoder.", "decoder.decoder.")


FAMILY: Final = SyntheticFamily(of_parts(write_checkpoint), "a talker and its codec")
