"""Loading the half of a CosyVoice checkpoint that makes sound."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.weights import load_networks


def load(name: str, folder: Path, how: CodecOptions) -> S3Flow:
    """A checkpoint's folder as model `name`; raises CheckpointError. Windows are its own."""
    nets = load_networks(folder, how.where)
    return S3Flow(name, "cosyvoice", nets, how)
