"""Checkpoints small enough for the engine's conformance tests."""

from functools import cache, partial

from tests.unit.ttsfamilies.brief import brief
from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.chatterbox.family import Chatterbox, load
from ttsfamilies.chatterbox.synthetic import write_checkpoint
from ttsfamilies.chatterbox.voices import BUILT_IN


@cache
def written(kind: str) -> Chatterbox:
    return loaded(partial(load, "m"), partial(write_checkpoint, ending=4.0, heard=9), kind, seed=3)


def tiny(kind: str = "english", most: int = 6, *, whole: bool = True) -> Chatterbox:
    """With a voice that tests ask for. most: tokens of a sentence."""
    of = written(kind)
    voices = {"slt": of._known[BUILT_IN]}
    return brief(Chatterbox("m", of._net, of._tokenizer, None, voices, whole=whole), most)
