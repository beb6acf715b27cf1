"""A checkpoint small enough for the engine's conformance tests."""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import msgspec

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.glm_voice.family import GlmVoice, load
from ttsfamilies.glm_voice.request import GlmPrepared
from ttsfamilies.glm_voice.synthetic import write_checkpoint


class Brief(GlmVoice):
    """Answers in 24 ids where a request says nothing of their number."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GlmPrepared:
        if request.sampling.max_new_tokens is None:
            brief = Sampling(temperature=0.9, max_new_tokens=24)
            request = msgspec.structs.replace(request, sampling=brief)
        return super().prepare(request, derived)


@cache
def written() -> Any:
    return loaded(partial(load, "m"), write_checkpoint, seed=3)


def tiny() -> Brief:
    """With a voice that tests ask for."""
    of = written()
    model = Brief("m", of._net, of._dialogue, of._hearing)
    model.spec = replace(model.spec, voices=(Voice("slt", "GLM-4-Voice", "en"),))
    return model
