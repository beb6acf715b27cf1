"""Loading the codec of a voice folder."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.voice import load_voice
from vocoder.codecs.base import Codec
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.vesper.codec import Vesper
from vocoder.codecs.vesper.device import VesperOnDevice


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A voice's folder as model `name`; raises VoiceError."""
    voice = load_voice(folder)
    if how.device is None:
        return Vesper.load(name, voice)
    return VesperOnDevice.load(name, voice, how.device, how.room)
