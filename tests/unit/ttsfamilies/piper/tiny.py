"""A voice small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.piper.family import Piper
from ttsfamilies.piper.net import Vits
from ttsfamilies.piper.phones import characters
from ttsfamilies.piper.synthetic import write_voice
from ttsfamilies.piper.voice import PiperConfig, PiperVoice, load_net


@cache
def parts() -> tuple[Vits, PiperConfig]:
    """A network and what the file beside it says."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_voice(Path(folder), seed=3)
        voice = PiperVoice(Path(folder))
        return load_net(voice, "cpu"), voice.config


def tiny() -> Piper:
    """With a voice that tests ask for, read letter by letter."""
    return Piper("m", *parts(), {"own": characters})
