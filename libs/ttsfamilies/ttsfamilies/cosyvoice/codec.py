"""Loading the half of a CosyVoice checkpoint that makes sound."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import load_networks


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> S3Flow:
    """A checkpoint's folder; raises CheckpointError."""
    nets = load_networks(folder, how.where)
    return S3Flow(name, "cosyvoice", nets, how)
