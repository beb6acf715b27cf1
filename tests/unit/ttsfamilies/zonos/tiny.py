"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.zonos.family import Zonos
from ttsfamilies.zonos.net import Conditions, ZonosNet, load_net
from ttsfamilies.zonos.phones import Readings
from ttsfamilies.zonos.synthetic import write_checkpoint

# Of a voice that the folder brings.
VOICE = torch.linspace(-1, 1, 128).numpy()


@cache
def parts() -> tuple[ZonosNet, Conditions]:
    """A network and its conditions."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3, encoders=False)
        return load_net(Path(folder), "cpu", "float32")


@cache
def readings() -> Readings:
    """Of the repository's English, on a machine without eSpeak."""
    return Readings.load(LEXICON)


def tiny(most_frames: int = 6) -> Zonos:
    """With a voice that tests ask for; a passage has so many frames, and eight rows more."""
    torch.set_num_threads(1)
    return brief(Zonos("m", *parts(), readings(), voices={"slt": VOICE}), most_frames)
