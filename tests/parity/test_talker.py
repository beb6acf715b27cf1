"""The talker says what the official package says, token for token."""

import numpy as np
import pytest
import torch

from tests.parity.cases import CASES, Case
from tests.parity.conftest import Arrays, Checkpoints
from tests.parity.offline import loaded, open_stream

pytestmark = pytest.mark.slow  # one more family

# One of each kind of checkpoint; test_families.py compares the tokens of all of them.
FIRST = [
    next(c for c in CASES if c.checkpoint == n) for n in dict.fromkeys(c.checkpoint for c in CASES)
]
REQUESTS = [
    pytest.param(
        case,
        index,
        id=f"{case.name} {index}",
        marks=() if case in FIRST and not index else pytest.mark.slow,
    )
    for case in CASES
    for index in range(len(case.texts))
]


@pytest.mark.parametrize(("case", "index"), REQUESTS)
def test_every_case_gives_the_official_tokens(
    case: Case, index: int, checkpoints: Checkpoints, talker_goldens: Arrays
) -> None:
    stream = open_stream(loaded(checkpoints[case.checkpoint]), case, index)
    # The official package computes a frame's residual codes one step late, and drops the last.
    codes = stream.run(case.options["max_new_tokens"] - 1)
    wanted = talker_goldens[f"{case.name}/{index}/codes"]
    assert codes.tolist() == wanted.tolist()
    states = talker_goldens[f"{case.name}/{index}/hidden"]
    assert np.abs(torch.stack(stream.hidden).numpy() - states).max() < 1e-4
