"""Loading the codec of a VoxCPM2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.voxcpm2.codec.codec import VoxcpmCodec, VoxcpmOnDevice
from ttsfamilies.voxcpm2.codec.net import load_decoder


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's codec as model `name`; raises CheckpointError. It is never windowed."""
    net = load_decoder(folder, how.where)
    if how.device is None:
        return VoxcpmCodec(name, net)
    return VoxcpmOnDevice(name, net, how.device, how.room)
