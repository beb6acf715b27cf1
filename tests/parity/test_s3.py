"""Recordings are heard as by the packages that CosyVoice and Chatterbox hear them with."""

import numpy as np
import pytest

from tests.parity.cosyvoice_cases import RATES, SEED, STRIDE
from tests.parity.families.cosyvoice import write_hearing
from tests.parity.material import arrays, audio
from ttsfamilies.base.s3.references import FlowReferences
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens

pytestmark = pytest.mark.slow  # one more family

HIGHEST_HZ = {2: 8_000.0, 3: 12_000.0}


@pytest.fixture(scope="module", params=HIGHEST_HZ)
def hearing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, FlowReferences]:
    """Of a version, read from published files."""
    version, folder = request.param, tmp_path_factory.mktemp("s3")
    write_hearing(folder)
    tokens = load_published_tokens(folder / f"speech_tokenizer_v{version}.onnx", "cpu")
    speaker = load_published_speaker(folder / "campplus.onnx", "cpu")
    return version, FlowReferences(tokens, speaker, HIGHEST_HZ[version])


@pytest.mark.parametrize("rate", RATES)
def test_a_recording_gives_the_same_tokens_mel_frames_and_speaker(
    hearing: tuple[int, FlowReferences], rate: int
) -> None:
    wanted, (version, references) = arrays("s3"), hearing
    found = references.hear(audio(RATES[rate], SEED, rate), rate)
    tokens = wanted[f"{rate}/token{version}"]
    count = len(found["token"])
    assert len(tokens) - count in (0, 1)  # a token begun has no two mel frames
    assert found["token"].tolist() == tokens[:count].tolist()
    assert len(found["mel"]) == 2 * count
    mel = np.exp(found["mel"][::STRIDE])
    # Of bands that hold nothing the logarithm shows what float32 rounds.
    theirs = np.exp(wanted[f"{rate}/mel{version}"][: len(mel)])
    np.testing.assert_allclose(mel, theirs, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found["speaker"][0], wanted[f"{rate}/speaker"], atol=1e-4)
