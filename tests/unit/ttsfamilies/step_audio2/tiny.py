"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache, partial
from typing import Any

import numpy as np

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.fields import NOTHING, Arrays, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.step_audio2.family import StepAudio2, load
from ttsfamilies.step_audio2.request import StepPrepared
from ttsfamilies.step_audio2.synthetic import write_checkpoint

VOICE: Arrays = {"token": np.zeros(20, np.int16)}


class Voiced(StepAudio2):
    """One that answers with the same voice where a request brings none."""

    most = 0

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> StepPrepared:
        heard = derived._replace(reference=derived.reference or VOICE)
        found = super().prepare(request, heard)
        found.most_frames = min(found.most_frames, self.most)
        return found


@cache
def written() -> Any:
    return loaded(partial(load, "m"), write_checkpoint, seed=3)


def tiny(most: int = 24) -> Voiced:
    """most: tokens of an answer."""
    of = written()
    model = Voiced("m", of._net, of._tokenizer, of.recordings)
    model.most = most
    return model
