"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache, partial
from typing import Any

import msgspec
import numpy as np

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.fields import NOTHING, Arrays, Derived
from ttscommon.wire.messages import Reference, SpeechRequest
from ttsfamilies.cosyvoice.family import CosyVoice, load
from ttsfamilies.cosyvoice.request import CosyPrepared
from ttsfamilies.cosyvoice.synthetic import write_checkpoint

SOUND = Reference("0" * 16 + "-" + "0" * 64, "Hello world, said the user.")
# 20 tokens of a recording: a whole turn and a part of one.
HEARD: Arrays = {"token": np.arange(0, 6000, 300, dtype=np.int16)}
MOST = 30


class Recorded(CosyVoice):
    """Speaks with the same recording where a request brings none, in turns, MOST tokens at most."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> CosyPrepared:
        request = msgspec.structs.replace(
            request, reference=request.reference or SOUND, whole_text=bool(request.whole_text)
        )
        heard = Derived(HEARD) if derived.reference is None else derived
        found = super().prepare(request, heard)
        found.most_frames = min(found.most_frames, MOST)
        return found


@cache
def written(version: int) -> Any:
    write = partial(write_checkpoint, version=version, filling=1.4)
    return loaded(partial(load, "m"), write, seed=3)


def tiny(version: int = 2) -> Recorded:
    of = written(version)
    return Recorded("m", of._net, of._vocabulary.tokenizer, of.recordings)
