"""GLM-4-Voice's prompts, what it hears, and its sound beside the references."""

from functools import partial

import numpy as np
import pytest

from tests.parity.families.glm_voice import FAMILY, goldens, sound
from tests.parity.glm_voice_cases import CASES, CODEC_SEED, HEARD, STRIDE, codes
from tests.parity.material import arrays
from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.glm_voice.codec import load
from ttsfamilies.glm_voice.family import GlmVoice
from ttsfamilies.glm_voice.synthetic import write_codec

pytestmark = pytest.mark.slow  # one more family

_CLOSE = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GlmVoice:
    folder = tmp_path_factory.mktemp("glm")
    FAMILY.write(folder, CASES[0].checkpoint)
    found: GlmVoice = FAMILY.loads("m", folder)
    return found


@pytest.mark.parametrize("seconds", HEARD)
def test_what_is_heard_are_the_references_ids(model: GlmVoice, seconds: float) -> None:
    found = model.derive(sound(seconds))["codes"][:, 0]
    assert found.tolist() == goldens()[f"{seconds:g} s"]


def test_the_sound_of_growing_blocks_is_the_references() -> None:
    codec = loaded(partial(load, "m"), write_codec, seed=CODEC_SEED)
    codec._flow.double()
    codec._hift.double()
    state = codec.open(SpeechRequest("r", "m", "", "text"))
    whole = {"token": codes()}
    (samples,) = codec.decode([Work(state, whole, final=True)])
    frames, count = arrays("glm_voice")["counts"].tolist()
    assert (frames, count) == (620, 620 * 256)
    assert len(samples) == len(codes()) * 1764
    np.testing.assert_array_equal(samples[count:], 0.0)
    want = arrays("glm_voice")["samples"]
    assert want.std() > 0.01
    np.testing.assert_allclose(samples[:count:STRIDE], want, 0, _CLOSE)
