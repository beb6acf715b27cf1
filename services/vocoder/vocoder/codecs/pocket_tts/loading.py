"""Loading the codec of a Pocket TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.base import Codec
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.pocket_tts.codec import PocketCodec, PocketOnDevice
from vocoder.codecs.pocket_tts.net import load_decoder


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A checkpoint's codec as model `name`; raises CheckpointError. It is never windowed."""
    if how.device is None:
        return PocketCodec(name, load_decoder(folder))
    net = load_decoder(folder, str(how.device.where))
    return PocketOnDevice(name, net, how.device, how.room)
