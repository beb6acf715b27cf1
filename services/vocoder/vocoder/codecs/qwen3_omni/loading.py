"""Loading Qwen3-Omni's codec."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.base import Codec
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.qwen3_omni.codec import OmniCodec, OmniCodecOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    if how.device is None:
        return OmniCodec.load(name, folder)
    return OmniCodecOnDevice.load(name, folder, how.device, how.room)
