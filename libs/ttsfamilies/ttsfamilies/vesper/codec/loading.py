"""Loading the codec of a voice folder."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.voice import load_voice
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.vesper.codec.codec import Vesper
from ttsfamilies.vesper.codec.device import VesperOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A voice's folder as model `name`; raises VoiceError."""
    voice = load_voice(folder)
    if how.device is None:
        return Vesper.load(name, voice)
    return VesperOnDevice.load(name, voice, how.device, how.room)
