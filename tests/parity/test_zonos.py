"""What is Zonos's own: its phones, and encoders of its codec."""

from pathlib import Path

import pytest

from tests.parity.families.zonos import readings
from tests.parity.zonos_cases import PHONES, SAID, SEED, TEXT, WORDS
from ttscommon.engine.checkpoint import CheckpointError, dump_json, read_json
from ttsfamilies.zonos.recordings import ZonosRecordings
from ttsfamilies.zonos.synthetic import write_checkpoint


def test_the_cases_have_the_phones_of_their_texts() -> None:
    for text, phones in ((TEXT, PHONES), (WORDS, SAID)):
        assert "".join(readings().of("en", "own")(text, ()).symbols) == phones


def test_encoders_of_another_codec_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, seed=SEED)
    path = tmp_path / "dac" / "config.json"
    dump_json(path, read_json(path, dict[str, object]) | {"sampling_rate": 16_000})
    with pytest.raises(CheckpointError, match="another codec"):
        ZonosRecordings.load(tmp_path)
