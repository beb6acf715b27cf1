"""Names of the talker's and the encoders' parameters in a checkpoint, and loading them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.mimi import encoder_sources
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttsfamilies.qwen3_tts.cloning import (
    FOLDER,
    CodecEncoder,
    EncoderConfig,
    SpeakerEncoder,
    load_encoder_config,
    log_mel,
)
from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.config_files import load_config
from ttsfamilies.qwen3_tts.net import CodePredictor, TalkerNet

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SPEAKER = "speaker_encoder."


def talker_sources(net: TalkerNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "text.weight": same("talker.model.text_embedding.weight"),
        "codec.weight": same("talker.model.codec_embedding.weight"),
        "codec_head.weight": same("talker.codec_head.weight"),
    }
    found |= _pair("text_projection.first", "talker.text_projection.linear_fc1")
    found |= _pair("text_projection.second", "talker.text_projection.linear_fc2")
    found |= decoder_sources(net.backbone.config, "backbone.", "talker.model.")
    return found | predictor_sources(net.predictor)


def predictor_sources(predictor: CodePredictor) -> dict[str, Source]:
    """The code predictor's."""
    part = "talker.code_predictor."
    rows = (predictor.size,) * predictor.residuals
    books = tuple(f"{part}model.codec_embedding.{i}.weight" for i in range(predictor.residuals))
    heads = tuple(f"{part}lm_head.{i}.weight" for i in range(predictor.residuals))
    found = {
        "predictor.codes.weight": Source(books, rows),
        "predictor.heads": Source(heads, stacked=True),
    }
    if isinstance(predictor.project, nn.Linear):
        found |= _pair("predictor.project", f"{part}small_to_mtp_projection")
    return found | decoder_sources(predictor.decoder.config, "predictor.decoder.", f"{part}model.")


def speaker_sources(net: SpeakerEncoder) -> dict[str, Source]:
    """The published names are the network's own."""
    return {name: same(f"{_SPEAKER}{name}") for name in net.state_dict()}


def _pair(ours: str, theirs: str) -> dict[str, Source]:
    return {f"{ours}.{part}": same(f"{theirs}.{part}") for part in ("weight", "bias")}


def unused_by_encoder(config: EncoderConfig) -> tuple[str, ...]:
    """Beginnings of names in the codec's file that encoding has no use for."""
    c, part = config.encoder_config, "encoder.quantizer."
    quantizers = [f"{part}{kind}_residual_vector_quantizer." for kind in ("semantic", "acoustic")]
    valid = config.encoder_valid_num_quantizers - 1
    beyond = range(valid, c.num_quantizers - c.num_semantic_quantizers)
    flags = [f"{q}layers.{i}.codebook.initialized" for q in quantizers for i in range(valid)]
    return (
        "decoder.",
        *(f"{quantizer}output_proj" for quantizer in quantizers),
        *(f"{quantizers[1]}layers.{i}." for i in beyond),
        *flags,
    )


def check_device(device: str) -> torch.device:
    """A device that is there; raises CheckpointError."""
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError) as error:
        raise CheckpointError(f"device {device!r} cannot be used: {error}") from error
    return found


def load_talker(checkpoint: Path, *, device: str = "cpu", dtype: str = "float32") -> TalkerNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    if dtype not in _DTYPES:
        raise CheckpointError(f"dtype {dtype!r} is none of {', '.join(_DTYPES)}")
    config, where = load_config(checkpoint), check_device(device)
    net = unfilled(TalkerNet, config).to(_DTYPES[dtype])
    net.keep_float32(where)
    others = (_SPEAKER,) if config.tts_model_type == "base" else ()
    return filled(net, talker_sources(net), Shards.of(checkpoint), others=others, device=where)


def load_encoders(checkpoint: Path, *, device: str = "cpu") -> tuple[SpeakerEncoder, CodecEncoder]:
    """What turns references into prompts, of a Base checkpoint; raises CheckpointError."""
    config = load_config(checkpoint)
    if config.tts_model_type != "base":
        raise CheckpointError(
            f"{checkpoint} is a {config.tts_model_type} model: it clones no voices"
        )
    speaker = load_speaker(checkpoint, config, device)
    return speaker, load_codec_encoder(checkpoint, device)


def load_speaker(checkpoint: Path, config: TalkerConfig, device: str) -> SpeakerEncoder:
    """The speaker encoder; raises CheckpointError."""
    sizes = config.speaker_encoder_config
    net = unfilled(SpeakerEncoder, sizes)
    shards = Shards.of(checkpoint)
    where = check_device(device)
    filled(net, speaker_sources(net), shards, others=("talker.",), device=where)
    net.mels = log_mel(sizes).to(device)
    return net


def load_codec_encoder(checkpoint: Path, device: str) -> CodecEncoder:
    """The codec's encoder; raises CheckpointError."""
    config = load_encoder_config(checkpoint)
    net = unfilled(CodecEncoder, config)
    shards = Shards.of(checkpoint / FOLDER)
    others = unused_by_encoder(config)
    where = check_device(device)
    return filled(net, encoder_sources(net, "encoder."), shards, others=others, device=where)
