"""What is CSM's own: its prompt, its end, and ids that are no codes."""

import numpy as np
import pytest

from tests.parity.csm_cases import CASES, Case
from tests.parity.families.csm import FAMILY, ended, goldens
from tests.parity.runner import Loaded
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.turns import FRAME

AUDIO, AUDIO_END = 128_002, 128_003


def test_the_model_ends_its_own_speech() -> None:
    (case,) = [case for case in CASES if case.checkpoint == "csm-ending"]
    assert ended(case)
    assert 3 < len(FAMILY.wanted(case)["codes"]) < case.frames - 1


def test_ids_that_are_no_codes_are_fed_back_as_drawn() -> None:
    assert max(int(FAMILY.wanted(case)["codes"].max()) for case in CASES) > 2047


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded[Case]:
    return Loaded(FAMILY, tmp_path_factory.mktemp("csm"), "csm")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_prompt_is_the_references(loaded: Loaded[Case], case: Case) -> None:
    prepared = loaded.model.prepare(FAMILY.request(case), loaded.derived(case))
    (prompt,) = prepared.read([Text(case.text)], final=True)
    theirs = np.array(goldens()[case.name]["prompt"])
    sound = (theirs == AUDIO) | (theirs == AUDIO_END)
    np.testing.assert_array_equal(prompt.text, np.where(sound, FRAME, theirs))
    assert not prompt.codes[theirs == AUDIO_END].any()
