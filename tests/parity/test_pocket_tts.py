"""What the table of families does not say of Pocket TTS: told the reference's frames, each next one
is theirs within rounding; against ourselves, frames are the same bits whatever happens.

A frame is fed back as floats, so that rounding grows from frame to frame.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from tests.parity.families.pocket_tts import FAMILY, told
from tests.parity.pocket_cases import CASES, CHECKPOINTS, Case
from tests.parity.runner import Loaded, Run, alone, batched, evicted, joined, late
from ttscommon.wire.fields import Arrays, cut
from ttscommon.wire.pieces import Text

pytestmark = pytest.mark.slow  # one more family

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
# Of values of about 3.
CLOSE = 2e-5


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Loaded[Case]]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("pocket")
    return {name: Loaded(FAMILY, folder / name, name) for name in CHECKPOINTS}


@pytest.fixture(scope="module")
def ours(loaded: Mapping[str, Loaded[Case]]) -> dict[str, Arrays]:
    """Every case, by itself."""
    return {case.name: alone(loaded[case.checkpoint], case) for case in CASES}


def equal(one: Arrays, other: Arrays, message: str = "") -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=message)


@every_case
def test_told_the_references_frames_each_next_one_is_theirs(
    loaded: Mapping[str, Loaded[Case]], case: Case
) -> None:
    theirs = FAMILY.wanted(case)
    places, run = range(1, len(theirs["left"]), 4), Run(loaded[case.checkpoint])
    for at in places:
        run.open(case, str(at), cut(theirs, 0, at))
    for name, found in run.finish().items():
        at = int(name)
        np.testing.assert_allclose(found["latent"][at], theirs["latent"][at], atol=CLOSE)


@pytest.mark.parametrize("treatment", [batched, joined, late, evicted])
@pytest.mark.parametrize(
    "checkpoint", ["pocket", "pocket-small", "pocket-heads", "pocket-two-bytes"]
)
def test_whatever_happens_it_says_the_same_bits(
    loaded: Mapping[str, Loaded[Case]], ours: dict[str, Arrays], checkpoint: str, treatment: Any
) -> None:
    for name, (_, found) in treatment(loaded[checkpoint]).items():
        equal(found, ours[name], name)


@every_case
def test_resumed_at_any_frame_it_goes_on_with_the_same_bits(
    loaded: Mapping[str, Loaded[Case]], ours: dict[str, Arrays], case: Case
) -> None:
    whole = ours[case.name]
    frames = len(whole["left"])
    ending = int(np.flatnonzero(whole["left"] >= 0)[0]) if (whole["left"] >= 0).any() else 1
    run = Run(loaded[case.checkpoint])
    for at in {1, ending, ending + 1, frames // 2, frames - 1} - {frames}:
        run.open(case, str(at), cut(whole, 0, at))
    for at_frame, found in run.finish().items():
        equal(found, whole, at_frame)


def test_the_model_ends_its_own_speech_and_so_many_frames_follow(ours: dict[str, Arrays]) -> None:
    left = {name: arrays["left"].tolist() for name, arrays in ours.items()}
    assert left["several chunks"].count(0) > 1
    assert left["the usual settings"][-4:] == [-1, 2, 1, 0]
    assert left["few words"][-6:] == [-1, 4, 3, 2, 1, 0]
    assert left["frames behind the end"][-10:] == [-1, 8, 7, 6, 5, 4, 3, 2, 1, 0]


@every_case
def test_a_prompt_is_the_references(loaded: Mapping[str, Loaded[Case]], case: Case) -> None:
    of = loaded[case.checkpoint]
    prepared = of.model.prepare(FAMILY.request(case), of.derived(case))
    made = prepared.read([Text(case.text)], final=True)
    assert [list(unit.tokens) for unit in made] == told()["tokens"][case.name]
