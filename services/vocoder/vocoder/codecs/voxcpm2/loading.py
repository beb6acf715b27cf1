"""Loading the codec of a VoxCPM2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.base import Codec
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.voxcpm2.codec import VoxcpmCodec, VoxcpmOnDevice
from vocoder.codecs.voxcpm2.net import load_decoder


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's codec as model `name`; raises CheckpointError. It is never windowed."""
    net = load_decoder(folder, how.where)
    if how.device is None:
        return VoxcpmCodec(name, net)
    return VoxcpmOnDevice(name, net, how.device, how.room)
