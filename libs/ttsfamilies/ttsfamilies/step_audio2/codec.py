"""Loading the folder of a Step-Audio 2 checkpoint that makes sound."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import load_networks


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> S3Flow:
    """`token2wav` of a checkpoint; raises CheckpointError."""
    nets = load_networks(folder, how.where)
    if not nets.flow.windowed:
        raise CheckpointError(f"{folder} holds another flow than Step-Audio 2's")
    return S3Flow(name, "step_audio2", nets, how)
