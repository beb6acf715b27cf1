"""When a codebook begins and ends, on the device and from the log."""

import numpy as np
import pytest
import torch

from ttscommon.engine.delay_pattern import DelayPattern
from ttsfamilies.base.lm.codes import Ending, closed, counts, ending, is_over, unbegun

DELAY_PATTERN = DelayPattern.even(4)
DELAYS = torch.tensor(DELAY_PATTERN.delays)
END = 9


def run(ends_at: dict[int, int]) -> tuple[list[list[int]], list[Ending]]:
    """Rows until the last, and the state behind each; ends_at: what a codebook ends by, by row."""
    made, told = torch.zeros(1, dtype=torch.int64), Ending(*torch.zeros(2, 1, dtype=torch.int64))
    rows, states = [], []
    while not bool(told.over):
        row = torch.full((1, 4), int(made))
        if int(made) in ends_at:
            row[0, ends_at[int(made)]] = END
        row = row.masked_fill(unbegun(made, DELAYS), -1).masked_fill(
            closed(told.since, DELAYS), END
        )
        told = ending(row == END, told, DELAY_PATTERN.most)
        made = made + 1
        rows.append(row[0].tolist())
        states.append(told)
    return rows, states


def test_codebooks_begin_one_after_the_other_and_end_so() -> None:
    rows, _ = run({2: 0})
    assert rows == [
        [0, -1, -1, -1],
        [1, 1, -1, -1],
        [END, 2, 2, -1],
        [END, 3, 3, 3],
        [END, END, 4, 4],
    ]
    frames = DELAY_PATTERN.frames(np.array(rows))
    assert frames.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4]]


def test_an_end_in_another_codebook_lets_the_first_go_on_for_a_row_no_more() -> None:
    rows, _ = run({3: 2})
    assert rows[3:] == [
        [3, 3, END, 3],
        [END, 4, 4, 4],
        [END, END, 5, 5],
        [END, END, END, 6],
    ]
    frames = DELAY_PATTERN.frames(np.array(rows))
    assert frames[:, 0].tolist() == [0, 1, 2, 3]
    assert (frames == END).sum() == 1  # the code that is none


@pytest.mark.parametrize("ends_at", [{2: 0}, {3: 2}, {1: 1}, {0: 0}])
def test_the_log_tells_what_the_device_knew(ends_at: dict[int, int]) -> None:
    rows, states = run(ends_at)
    for count, state in enumerate(states, 1):
        ends = np.array(rows[:count]) == END
        found = counts(ends, DELAY_PATTERN)
        assert (found["made"], found["since"]) == (count, int(state.since))
        if found["since"]:
            assert found["left"] == int(state.left)
        assert is_over(ends, DELAY_PATTERN) == (count == len(rows))
