"""Checkpoints small enough for the engine's conformance tests."""

from functools import cache, partial

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.chatterbox.family import Chatterbox, load
from ttsfamilies.chatterbox.request import ChatterboxPrepared
from ttsfamilies.chatterbox.synthetic import write_checkpoint
from ttsfamilies.chatterbox.voices import BUILT_IN


class Brief(Chatterbox):
    """Speaks so many tokens of a sentence at the most."""

    most = 0

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> ChatterboxPrepared:
        found = super().prepare(request, derived)
        found.longest = self.most
        return found


@cache
def written(kind: str) -> Chatterbox:
    return loaded(partial(load, "m"), partial(write_checkpoint, ending=4.0, heard=9), kind, seed=3)


def tiny(kind: str = "english", most: int = 6, *, whole: bool = True) -> Brief:
    """With a voice that tests ask for."""
    of = written(kind)
    voices = {"slt": of._known[BUILT_IN]}
    model = Brief("m", of._net, of._tokenizer, None, voices, whole=whole)
    model.most = most
    return model
