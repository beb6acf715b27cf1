"""Loading Fish Audio S2's codec."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.fish_s2.codec.codec import FishCodec, FishOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A folder's codec as model `name`; raises CheckpointError. It is never windowed."""
    if how.device is None:
        return FishCodec.load(name, folder)
    return FishOnDevice.load(name, folder, how.device, how.room)
