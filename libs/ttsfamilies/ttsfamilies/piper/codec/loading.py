"""Loading the generator of a Piper voice."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.piper.codec.codec import PiperCodec
from ttsfamilies.piper.codec.net import load_generator
from ttsfamilies.piper.voice import PiperVoice


def load(name: str, place: Path, how: CodecOptions) -> PiperCodec:
    """A voice's file, or its folder, as model `name`; raises CheckpointError."""
    voice = PiperVoice(place)
    where = "cpu" if how.device is None else str(how.device.where)
    return PiperCodec(name, voice.config, *load_generator(voice, where))
