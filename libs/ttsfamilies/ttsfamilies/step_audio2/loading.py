"""Loading a Step-Audio 2 checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.s3.references import FlowReferences
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.step_audio2.family import StepAudio2
from ttsfamilies.step_audio2.net import load_net

_HIGHEST_HZ: Final = 8_000.0


def load(name: str, folder: Path, how: ModelOptions) -> StepAudio2:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    net, voice = load_net(folder, how.place, how.dtype), folder / "token2wav"
    voices = FlowReferences(
        load_published_tokens(voice / "speech_tokenizer_v2_25hz.onnx", how.place),
        load_published_speaker(voice / "campplus.onnx", how.place),
        _HIGHEST_HZ,
        replicate=True,
    )
    return StepAudio2(name, net, Qwen2Tokenizer.load(folder), voices)
