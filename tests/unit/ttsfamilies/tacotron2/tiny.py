"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.piper.phones import characters
from ttsfamilies.tacotron2.facts import HifiganConfig
from ttsfamilies.tacotron2.family import Tacotron2
from ttsfamilies.tacotron2.net import TacotronNet, load_net
from ttsfamilies.tacotron2.synthetic import write_checkpoint


@cache
def parts() -> tuple[TacotronNet, HifiganConfig]:
    """A network, and what lies beside it."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=5, ending=-3.4)
        return load_net(Path(folder), "cpu")


def tiny(most_frames: int = 16) -> Tacotron2:
    """With a voice that tests ask for, read letter by letter. most_frames: of a passage."""
    torch.set_num_threads(1)
    return brief(Tacotron2("m", *parts(), characters), most_frames)
