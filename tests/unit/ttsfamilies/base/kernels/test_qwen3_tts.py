"""The whole frame of Qwen3-TTS by kernels, in Triton's interpreter, is the frame by their twins."""

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.late import Late
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.kernels.choice import Version, only
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest

pytest.importorskip("triton")


def spoken(version: Version) -> Arrays:
    """Few frames, few shapes: the interpreter takes many seconds for each."""
    family = tiny()
    family.compute_on(Late())
    sampling = Sampling(top_k=20, max_new_tokens=3)
    request = SpeechRequest("r", "m", "slt", "One step.", seed=1, sampling=sampling)
    with only(version):
        engine = Engine(family, blocks=8, slots=1, depth=family.depth, metrics=Metrics())
        (found,) = synthesise(engine, [request])
    assert found.error is None
    return found.arrays


@pytest.mark.slow
def test_a_stream_says_the_same_by_kernels_and_by_their_twins() -> None:
    fused, plain = spoken("triton"), spoken("torch")
    assert len(plain["codes"]) == 2
    np.testing.assert_array_equal(fused["codes"], plain["codes"])
