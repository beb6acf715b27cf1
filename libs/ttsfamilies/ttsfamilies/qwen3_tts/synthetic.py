"""Qwen3-TTS, tiny or in the published sizes, of every kind; codec included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.mimi import MimiEncoder, encoder_sources, quantizer_part
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import SHARD_BYTES, codebook_flags, drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import vocabulary, write_qwen2_tokenizer
from ttsfamilies.qwen3_tts.cloning import EncoderConfig, SpeakerEncoder
from ttsfamilies.qwen3_tts.codec import sources as decoder_sources
from ttsfamilies.qwen3_tts.codec_net import CodecConfig, CodecDecoder
from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.net import TalkerNet, speaker_sources, talker_sources
from ttsfamilies.qwen3_tts.sizes import (
    GENERATION,
    KINDS,
    PREPROCESSOR,
    PUBLISHED_TEXT_VOCABULARY,
    SIZES,
    Kind,
    Size,
    codec_config,
    model_config,
)

Shapes = dict[str, tuple[int, ...]]
_DTYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def write_checkpoint(
    folder: Path,
    size: Size = "tiny",
    kind: Kind = "custom_voice",
    *,
    seed: int = 0,
    small: bool = False,
    published_heads: bool = False,
    ending: float = 1.0,
    shard_bytes: int = SHARD_BYTES,
    dtype: str = "",
    transformers_version: str | None = "",
) -> None:
    """Write a whole checkpoint. ending: how loudly the end of speech speaks among the logits.
    published_heads: see model_config.

    dtype: of the talker's tensors; by default tiny ones are float32, the others as published:
    bfloat16, and float32 for the codec. transformers_version: what config.json names as its
    writer, None for nothing; by default the version of the published form.
    """
    vocab = vocabulary(0 if size == "tiny" else PUBLISHED_TEXT_VOCABULARY)
    config = model_config(size, kind, len(vocab), small=small, published_heads=published_heads)
    codec = codec_config(size)
    if transformers_version is None:
        config.pop("transformers_version")
    elif transformers_version:
        config["transformers_version"] = transformers_version
    stored = _DTYPES[dtype or ("float32" if size == "tiny" else "bfloat16")]
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", config)
    dump_json(folder / "generation_config.json", GENERATION)
    dump_json(folder / "speech_tokenizer" / "config.json", codec)
    for place in (folder, folder / "speech_tokenizer"):
        dump_json(place / "preprocessor_config.json", PREPROCESSOR)
    write_qwen2_tokenizer(folder, vocab)
    eos = config["talker_config"]["codec_eos_token_id"]
    tensors = drawn(model_shapes(config), seed, {"talker.codec_head.weight": (eos, ending)})
    save(folder, ((name, tensor.to(stored)) for name, tensor in tensors), shard_bytes)
    save(folder / "speech_tokenizer", drawn(codec_shapes(codec), seed), shard_bytes)


def model_shapes(config: Mapping[str, Any]) -> Shapes:
    """model.safetensors: talker, code predictor, and the speaker encoder of Base models."""
    told = msgspec.convert(config, TalkerConfig)
    found = shapes_of(talker_sources, TalkerNet, told)
    if told.tts_model_type == "base":
        found |= shapes_of(speaker_sources, SpeakerEncoder, told.speaker_encoder_config)
    return found


def codec_shapes(config: Mapping[str, Any]) -> Shapes:
    """speech_tokenizer/model.safetensors: the codec's encoder and decoder."""
    c = msgspec.convert(config, EncoderConfig).encoder_config
    sizes = msgspec.convert(config, CodecConfig).decoder_config
    hears = partial(encoder_sources, theirs="encoder.")
    found = shapes_of(hears, MimiEncoder, c, c.num_quantizers, None)
    found |= shapes_of(decoder_sources, CodecDecoder, sizes)
    # What only training had a use for.
    found |= codebook_flags("encoder.", c.num_quantizers)
    for kind in ("semantic", "acoustic"):
        part = quantizer_part("encoder.", kind)
        found[f"{part}output_proj.weight"] = (c.hidden_size, c.codebook_dim, 1)
    for kind in ("first", "rest"):
        narrow = sizes.codebook_dim // 2, sizes.codebook_dim, 1
        found[f"decoder.quantizer.rvq_{kind}.input_proj.weight"] = narrow
    return found


__all__ = ["FAMILY", "write_checkpoint"]


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A talker and its codec."""
    write_checkpoint(folder, size, kind, seed=seed)  # type: ignore[arg-type]


FAMILY: Final = SyntheticFamily(write_family, "a talker and its codec", sizes=SIZES, kinds=KINDS)
