"""What is Zonos's own: its phones, and what the encoders make of a recording."""

from pathlib import Path

import numpy as np
import pytest

from tests.parity.families.zonos import goldens, readings
from tests.parity.material import wav
from tests.parity.zonos_cases import PHONES, SAID, SEED, TEXT, WORDS, recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.zonos.recordings import ZonosRecordings
from ttsfamilies.zonos.synthetic import write_checkpoint


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    folder = tmp_path_factory.mktemp("zonos")
    write_checkpoint(folder, seed=SEED)
    return ZonosRecordings.load(folder).derive(wav(recording()))


def test_a_recordings_codes_are_the_references(derived: Arrays) -> None:
    np.testing.assert_array_equal(derived["codes"], goldens()["heard"])


def test_a_speakers_vector_is_the_references(derived: Arrays) -> None:
    assert np.abs(goldens()["speaker"]).max() > 0.1
    np.testing.assert_allclose(derived["speaker"], goldens()["speaker"], 0, 1e-4)


def test_the_cases_have_the_phones_of_their_texts() -> None:
    for text, phones in ((TEXT, PHONES), (WORDS, SAID)):
        assert "".join(readings().of("en", "own")(text, ()).symbols) == phones


def test_encoders_of_another_codec_are_refused(tmp_path: Path) -> None:
    from ttscommon.engine.checkpoint import CheckpointError, dump_json, read_json

    write_checkpoint(tmp_path, seed=SEED)
    path = tmp_path / "dac" / "config.json"
    dump_json(path, read_json(path, dict[str, object]) | {"sampling_rate": 16_000})
    with pytest.raises(CheckpointError, match="another codec"):
        ZonosRecordings.load(tmp_path)
