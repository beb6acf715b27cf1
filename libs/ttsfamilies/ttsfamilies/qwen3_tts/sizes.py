"""Config files of synthetic checkpoints: the published sizes, and one small enough for tests."""

from __future__ import annotations

from typing import Any, Final, Literal

from ttsfamilies.base.synthetic.tokenizers import SPECIAL_TOKENS

Size = Literal["tiny", "0.6b", "1.7b"]
Kind = Literal["custom_voice", "voice_design", "base"]
Config = dict[str, Any]

SIZES: Final[tuple[Size, ...]] = ("tiny", "0.6b", "1.7b")
KINDS: Final[tuple[Kind, ...]] = ("custom_voice", "voice_design", "base")

PUBLISHED_TEXT_VOCABULARY: Final = 151_643
PUBLISHED_TEXT_ROWS: Final = 151_936
_LANGUAGES: Final = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
    "beijing_dialect": 2074,
    "sichuan_dialect": 2062,
}
_SPEAKERS: Final = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
_DIALECTS: Final = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


GENERATION: Final[Config] = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}
PREPROCESSOR: Final[Config] = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "sampling_rate": 24_000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
}


def model_config(
    size: Size,
    kind: Kind,
    text_vocabulary: int,
    *,
    small: bool = False,
    published_heads: bool = False,
) -> Config:
    """config.json. text_vocabulary: tokens before the special ones.

    small: of a tiny one, take the 0.6B's shape, whose predictor is as wide as its talker.
    published_heads: of a tiny one, the number and size of heads of all published ones.
    """
    small = small if size == "tiny" else size == "0.6b"
    ids = {name: text_vocabulary + i for i, name in enumerate(SPECIAL_TOKENS)}
    talker = (_tiny_talker if size == "tiny" else _published_talker)(small)
    if published_heads:
        for part in (talker, talker["code_predictor_config"]):
            part |= {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
        talker["rope_scaling"]["mrope_section"] = [24, 20, 20]
    talker["text_vocab_size"] = _text_rows(text_vocabulary + len(SPECIAL_TOKENS))
    custom = kind == "custom_voice"
    talker |= {
        "spk_id": dict(_SPEAKERS) if custom else {},
        "spk_is_dialect": {n: _DIALECTS.get(n, False) for n in _SPEAKERS} if custom else {},
    }
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6" if small else "1b7",
        "tts_model_type": kind,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "talker_config": talker,
        # Newer versions make the official package tokenise with another model's expression.
        "transformers_version": "4.57.2",
    }
    if kind == "base":
        config["speaker_encoder_config"] = _speaker(size, talker["hidden_size"])
    return config


def _text_rows(tokens: int) -> int:
    """Rows of the text embedding; the published one has more than there are tokens."""
    return PUBLISHED_TEXT_ROWS if tokens > PUBLISHED_TEXT_VOCABULARY else tokens


def stack(dim: int, hidden: int, layers: int, heads: int, kv_heads: int, head: int) -> Config:
    """Of a decoder, as transformers writes it."""
    return {
        "hidden_size": dim,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
    }


def _published_talker(small: bool) -> Config:
    width = 1 if small else 2
    return _talker(
        stack(1024 * width, 3072 * width, 28, 16, 8, 128),
        stack(1024, 3072, 5, 16, 8, 128),
        text_hidden=2048,
        sections=[24, 20, 20],
    )


def _tiny_talker(small: bool) -> Config:
    width = 32 if small else 48
    return _talker(
        stack(width, 2 * width, 3, 4, 2, 16),
        stack(32, 64, 2, 4, 2, 8),
        text_hidden=40,
        sections=[4, 2, 2],
    )


def _talker(backbone: Config, predictor: Config, text_hidden: int, sections: list[int]) -> Config:
    return backbone | {
        "vocab_size": 3072,
        "max_position_embeddings": 32_768,
        "rope_scaling": {"interleaved": True, "mrope_section": sections, "rope_type": "default"},
        "text_hidden_size": text_hidden,
        "num_code_groups": 16,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": dict(_LANGUAGES),
        "code_predictor_config": predictor
        | {"vocab_size": 2048, "num_code_groups": 16, "max_position_embeddings": 65_536},
    }


def _speaker(size: Size, dim: int) -> Config:
    tiny = size == "tiny"
    wide = 16 if tiny else 512
    return {
        "enc_dim": dim,
        "sample_rate": 24_000,
        "mel_dim": 128,
        "enc_channels": [wide, wide, wide, wide, 3 * wide],
        "enc_kernel_sizes": [5, 3, 3, 3, 1],
        "enc_dilations": [1, 2, 3, 4, 1],
        "enc_attention_channels": 8 if tiny else 128,
        "enc_res2net_scale": 4 if tiny else 8,
        "enc_se_channels": 8 if tiny else 128,
    }


def codec_config(size: Size) -> Config:
    """speech_tokenizer/config.json; all published models share one codec."""
    tiny = size == "tiny"
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24_000,
        "output_sample_rate": 24_000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": _codec_decoder(tiny),
        "encoder_config": _codec_encoder(tiny),
    }


def _codec_decoder(tiny: bool) -> Config:
    sizes = stack(*((32, 64, 2, 4, 4, 8) if tiny else (512, 1024, 8, 16, 16, 64)))
    return sizes | {
        "latent_dim": 48 if tiny else 1024,
        "codebook_dim": 32 if tiny else 512,
        "codebook_size": 2048,
        "decoder_dim": 64 if tiny else 1536,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000,
        "sliding_window": 6 if tiny else 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
    }


def _codec_encoder(tiny: bool) -> Config:
    sizes = stack(*((32, 64, 2, 4, 4, 8) if tiny else (512, 2048, 8, 8, 8, 64)))
    return sizes | {
        "audio_channels": 1,
        "sampling_rate": 24_000,
        "_frame_rate": 12.5,
        "num_filters": 4 if tiny else 64,
        "num_residual_layers": 1,
        "upsampling_ratios": [8, 6, 5, 4],
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "dilation_growth_rate": 2,
        "compress": 2,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "pad_mode": "constant",
        "trim_right_ratio": 1.0,
        "hidden_act": "gelu",
        "norm_eps": 1e-5,
        "codebook_size": 2048,
        "codebook_dim": 16 if tiny else 256,
        "vector_quantization_hidden_dimension": 16 if tiny else 256,
        "num_quantizers": 18 if tiny else 32,
        "num_semantic_quantizers": 1,
        "upsample_groups": 32 if tiny else 512,
        "max_position_embeddings": 8000,
        "rope_theta": 10_000.0,
        "sliding_window": 250,
        "layer_scale_initial_scale": 0.01,
        "use_cache": False,
        "use_streaming": False,
    }
