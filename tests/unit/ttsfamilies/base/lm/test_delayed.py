"""When a codebook begins and ends, on the device and from the log."""

import numpy as np
import pytest
import torch

from ttscommon.engine.delay_pattern import DelayPattern
from ttsfamilies.base.lm.codes import Ending, closed, counts, ending, is_over, unbegun

DELAY_PATTERN = DelayPattern.even(4)
DELAYS = torch.tensor(DELAY_PATTERN.delays)


@pytest.mark.parametrize("ends_at", [{2: 0}, {3: 2}, {1: 1}, {0: 0}])
def test_the_log_tells_what_the_device_knew(ends_at: dict[int, int]) -> None:
    """ends_at: what a codebook ends by, by row."""
    told, rows = Ending(*torch.zeros(2, 1, dtype=torch.int64)), list[list[bool]]()
    while not bool(told.over):
        drawn = torch.arange(4) == ends_at.get(len(rows), -1)
        begun = ~unbegun(torch.tensor([len(rows)]), DELAYS)
        over = drawn & begun | closed(told.since, DELAYS)
        told = ending(over, told, DELAY_PATTERN.most)
        rows.append(over[0].tolist())
        found = counts(np.array(rows), DELAY_PATTERN)
        assert (found["made"], found["since"]) == (len(rows), int(told.since))
        assert not found["since"] or found["left"] == int(told.left)
        assert is_over(np.array(rows), DELAY_PATTERN) == bool(told.over)
