"""What is the own of Qwen3-TTS' codec: windows, and sound that goes on from a recording's."""

import numpy as np
import pytest

from tests.parity.conftest import Arrays, Checkpoints
from tests.parity.material import arrays, frames
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecState, Samples, Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.qwen3_tts.codec import Qwen3Codec, load

pytestmark = pytest.mark.slow  # one more family

FRAMES = 24


@pytest.fixture(scope="module")
def wanted() -> Arrays:
    return arrays("codec")


def opened(codec: Qwen3Codec) -> CodecState:
    return codec.open(SpeechRequest("r", "m", "", ""))


def sound(codec: Qwen3Codec, stream: CodecState, codes: Array) -> Samples:
    (samples,) = codec.decode([Work(stream, {"codes": codes.astype(np.int16)}, final=False)])
    return samples


def test_windows_are_the_official_ones_within_1e_4(
    checkpoints: Checkpoints, wanted: Arrays
) -> None:
    codec = load("m", checkpoints["custom"] / "speech_tokenizer", CodecOptions((10, 4)))
    stream = opened(codec)
    parts = np.split(frames(FRAMES, 9), range(7, FRAMES, 7))
    samples = np.concatenate([sound(codec, stream, part) for part in parts])[::3]
    assert np.abs(samples - wanted["windowed"]).max() < 1e-4
    assert np.abs(wanted["windowed"] - wanted["once"]).max() > 1e-3


def test_a_clones_sound_is_the_official_one_without_its_reference(
    checkpoints: Checkpoints, talker_goldens: Arrays
) -> None:
    """The official package decodes reference and speech together and cuts the reference off."""
    codec = load("m", checkpoints["base"] / "speech_tokenizer")
    stream = opened(codec)
    sound(codec, stream, frames(9, 5))
    samples = sound(codec, stream, talker_goldens["in context, sampled/0/codes"])[::3]
    official = talker_goldens["in context, sampled/wav"]
    assert np.abs(samples - official).max() < 1e-4
