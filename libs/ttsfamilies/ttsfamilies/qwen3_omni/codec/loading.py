"""Loading Qwen3-Omni's codec."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.qwen3_omni.codec.codec import OmniCodec, OmniCodecOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    if how.device is None:
        return OmniCodec.load(name, folder)
    return OmniCodecOnDevice.load(name, folder, how.device, how.room)
