"""What is CSM's and Mimi's own: ids that are no codes, and codes of recordings."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.parity.csm_cases import CASES, codes
from tests.parity.families.csm import FAMILY
from tests.parity.material import arrays, pcm
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.csm.family import load_encoder
from ttsfamilies.csm.mimi.codec import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("csm")
    FAMILY.write(found, "csm")
    return found


def test_ids_that_are_no_codes_are_fed_back_and_read_as_the_last_code(folder: Path) -> None:
    assert max(int(FAMILY.wanted(case)["codes"].max()) for case in CASES) > 2047
    codec, odd, plain = load("m", folder), codes()[:4].copy(), codes()[:4].copy()
    odd[1, 3], plain[1, 3] = 2050, 2047
    works = [
        Work(codec.open(SpeechRequest("r", "m", "", "text")), {"codes": each}, final=True)
        for each in (odd, plain)
    ]
    one, other = (codec.decode([work])[0] for work in works)
    np.testing.assert_array_equal(one, other)


def test_a_recordings_codes_are_the_references(folder: Path) -> None:
    heard = torch.from_numpy(pcm(2.1, 4) / np.float32(32_768))
    wanted = arrays("mimi")["heard"]
    encoder = load_encoder(folder, "cpu")
    assert len(np.unique(wanted)) > 100
    np.testing.assert_array_equal(encoder(heard).numpy(), wanted)
    encoder.window = None
    assert (encoder(heard).numpy() != wanted).any()  # it is longer than the window
