"""Loading the generator of a Piper voice."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.piper import PiperVoice
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.piper.codec import PiperCodec
from vocoder.codecs.piper.net import load_generator


def load(name: str, place: Path, how: CodecOptions) -> PiperCodec:
    """A voice's file, or its folder, as model `name`; raises CheckpointError."""
    voice = PiperVoice(place)
    where = "cpu" if how.device is None else str(how.device.where)
    return PiperCodec(name, voice.config, *load_generator(voice, where))
