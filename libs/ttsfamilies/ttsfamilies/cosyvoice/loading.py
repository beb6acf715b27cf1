"""Loading a CosyVoice checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.s3.references import FlowReferences
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.cosyvoice.config import BACKBONE
from ttsfamilies.cosyvoice.family import CosyVoice
from ttsfamilies.cosyvoice.net import load_net


def load(name: str, folder: Path, how: ModelOptions) -> CosyVoice:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    net = load_net(folder, how.place, how.dtype)
    tokens = folder / f"speech_tokenizer_v{net.rows.version}.onnx"
    references = FlowReferences(
        load_published_tokens(tokens, how.place),
        load_published_speaker(folder / "campplus.onnx", how.place),
        net.rows.highest_hz,
    )
    tokenizer = Qwen2Tokenizer.load(folder / BACKBONE)
    return CosyVoice(name, net, tokenizer, references)
