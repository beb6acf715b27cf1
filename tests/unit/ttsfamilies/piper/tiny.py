"""A voice small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path

from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.piper.family import Piper
from ttsfamilies.piper.net import Vits
from ttsfamilies.piper.phones import characters
from ttsfamilies.piper.synthetic import write_voice
from ttsfamilies.piper.voice import PiperConfig, PiperVoice, load_net


def read(folder: Path) -> tuple[Vits, PiperConfig]:
    """A network and what the file beside it says."""
    voice = PiperVoice(folder)
    return load_net(voice, "cpu"), voice.config


@cache
def parts() -> tuple[Vits, PiperConfig]:
    return loaded(read, write_voice, seed=3)


def tiny() -> Piper:
    """With a voice that tests ask for, read letter by letter."""
    return Piper("m", *parts(), {"own": characters})
