"""Frames to rows and back."""

import numpy as np
import pytest

from ttscommon.engine.delay_pattern import DelayPattern

FRAMES = np.arange(12, dtype=np.int16).reshape(4, 3)


def test_rows_hold_codes_of_several_frames() -> None:
    rows = DelayPattern.even(3).rows(FRAMES, 97, 99)
    assert rows.tolist() == [
        [0, 97, 97],
        [3, 1, 97],
        [6, 4, 2],
        [9, 7, 5],
        [99, 10, 8],
        [99, 99, 11],
    ]
    assert rows.dtype == FRAMES.dtype


@pytest.mark.parametrize("delays", [(0, 1, 2), (0, 2, 2), (1, 0, 3), (0, 0, 0)])
def test_frames_of_rows_are_what_they_were_made_of(delays: tuple[int, ...]) -> None:
    delay_pattern = DelayPattern(delays)
    rows = delay_pattern.rows(FRAMES, 97, 99)
    assert len(rows) == len(FRAMES) + delay_pattern.most
    np.testing.assert_array_equal(delay_pattern.frames(rows), FRAMES)


@pytest.mark.parametrize("delays", [(), (1, 2)])
def test_the_first_codes_stand_in_their_own_row(delays: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="row of its number"):
        DelayPattern(delays)
