"""Loading Fish Audio S2's codec."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.base import Codec
from vocoder.codecs.fish_s2.codec import FishCodec, FishOnDevice
from vocoder.codecs.loading import CodecOptions


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A folder's codec as model `name`; raises CheckpointError. It is never windowed."""
    if how.device is None:
        return FishCodec.load(name, folder)
    return FishOnDevice.load(name, folder, how.device, how.room)
