"""Loading the codec of a Pocket TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.pocket_tts.codec.codec import PocketCodec, PocketOnDevice
from ttsfamilies.pocket_tts.codec.net import load_decoder


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's codec as model `name`; raises CheckpointError. It is never windowed."""
    if how.device is None:
        return PocketCodec(name, load_decoder(folder))
    net = load_decoder(folder, str(how.device.where))
    return PocketOnDevice(name, net, how.device, how.room)
