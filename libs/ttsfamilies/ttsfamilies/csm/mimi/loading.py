"""Loading Mimi."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.csm.mimi.codec import Mimi, MimiOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A folder's codec as model `name`; raises CheckpointError. It is never windowed."""
    if how.device is None:
        return Mimi.load(name, folder)
    return MimiOnDevice.load(name, folder, how.device, how.room)
