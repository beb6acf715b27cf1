"""A generator small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.piper.codec import PiperCodec, load_generator
from ttsfamilies.piper.synthetic import write_voice
from ttsfamilies.piper.voice import PiperVoice


@cache
def tiny() -> PiperCodec:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_voice(Path(folder), seed=2)
        voice = PiperVoice(Path(folder))
        return PiperCodec("m", voice.config, *load_generator(voice, "cpu"))
