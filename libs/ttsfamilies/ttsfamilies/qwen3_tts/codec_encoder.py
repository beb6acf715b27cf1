"""The codec's encoder, for in-context cloning: a waveform to 16 codes a frame of 80 ms.

It is Mimi's, whose transformer attends to everything before, as in the official package: its
config's sliding window takes effect under one attention implementation only, and not under the one
that the codec is loaded with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import size_problems
from ttscommon.engine.mimi import MimiSizes
from ttscommon.engine.nn.mimi import MimiEncoder

FOLDER = "speech_tokenizer"


@dataclass(frozen=True)
class EncoderConfig:
    """speech_tokenizer/config.json, as far as the encoder goes."""

    encoder_config: MimiSizes
    encoder_valid_num_quantizers: int
    encode_downsample_rate: int
    input_sample_rate: int
    model_type: str


def load_encoder_config(checkpoint: Path) -> EncoderConfig:
    """Read and check the codec's part of a checkpoint; raises CheckpointError."""
    path = checkpoint / FOLDER / "config.json"
    config = read_json(path, EncoderConfig)
    sizes = config.encoder_config
    if config.model_type != "qwen3_tts_tokenizer_12hz":
        raise CheckpointError(f"{path}: model_type {config.model_type!r} is not served")
    for wrong in (*size_problems(config), *sizes.problems()):
        raise CheckpointError(f"{path}: encoder_config: {wrong}")
    if sizes.frame_samples != config.encode_downsample_rate:
        raise CheckpointError(f"{path}: the ratios do not give encode_downsample_rate")
    return config


class CodecEncoder(MimiEncoder):
    """Waveforms at 24 kHz to frames of codes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config.encoder_config, config.encoder_valid_num_quantizers, None)
        self.config = config
