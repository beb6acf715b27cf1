"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path

import msgspec

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.kokoro.family import Kokoro
from ttsfamilies.kokoro.net import KokoroProsody, load_net
from ttsfamilies.kokoro.request import KokoroPrepared, Read, ways_of
from ttsfamilies.kokoro.sizes import Voices
from ttsfamilies.kokoro.synthetic import write_checkpoint


class Tiny(Kokoro):
    """Knows one of its voices by the name that tests ask for."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> KokoroPrepared:
        if request.voice == "slt":
            request = msgspec.structs.replace(request, voice="af_sky")
        return super().prepare(request, derived)


def read(folder: Path) -> tuple[KokoroProsody, Voices]:
    """A network, and voices."""
    net = load_net(folder)
    return net, Voices.load(folder, net.config)


@cache
def parts() -> tuple[KokoroProsody, Voices]:
    return loaded(read, write_checkpoint, seed=3)


def tiny() -> Tiny:
    """In the engine, on the CPU."""
    return Tiny("m", *parts(), english())


@cache
def english() -> dict[str, Read]:
    """Ways to read English alone, whatever is installed."""
    found = ways_of(EnglishFrontend.load(LEXICON))
    return {tag: read for tag, read in found.items() if tag.startswith("en")}
