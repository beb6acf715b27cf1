"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

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


@cache
def parts() -> tuple[KokoroProsody, Voices]:
    """A network, and voices."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3)
        net = load_net(Path(folder))
        return net, Voices.load(Path(folder), net.config)


def tiny() -> Tiny:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    return Tiny("m", *parts(), english())


@cache
def english() -> dict[str, Read]:
    """Ways to read English alone, whatever is installed."""
    found = ways_of(EnglishFrontend.load(LEXICON))
    return {tag: read for tag, read in found.items() if tag.startswith("en")}
