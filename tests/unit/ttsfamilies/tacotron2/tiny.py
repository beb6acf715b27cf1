"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache, partial

from tests.unit.ttsfamilies.brief import brief
from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.piper.phones import characters
from ttsfamilies.tacotron2.facts import HifiganConfig
from ttsfamilies.tacotron2.family import Tacotron2
from ttsfamilies.tacotron2.net import TacotronNet, load_net
from ttsfamilies.tacotron2.synthetic import write_checkpoint


@cache
def parts() -> tuple[TacotronNet, HifiganConfig]:
    """A network, and what lies beside it."""
    return loaded(partial(load_net, device="cpu"), partial(write_checkpoint, ending=-3.4), seed=5)


def tiny(most_frames: int = 16) -> Tacotron2:
    """With a voice that tests ask for, read letter by letter. most_frames: of a passage."""
    return brief(Tacotron2("m", *parts(), characters), most_frames)
