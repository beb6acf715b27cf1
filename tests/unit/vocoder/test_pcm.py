from __future__ import annotations

import numpy as np
import pytest

from vocoder.pcm import FULL_SCALE, to_pcm


def test_halves_are_rounded_away_from_zero() -> None:
    steps = np.array([0.5, 1.5, 2.49, -0.5, -1.5, -2.49, 0.0])
    assert to_pcm((steps / FULL_SCALE).astype(np.float32)).tolist() == [1, 2, 2, -1, -2, -2, 0]


def test_what_is_too_loud_is_clipped() -> None:
    assert to_pcm(np.array([2.0, -2.0, 1.0], np.float32)).tolist() == [32767, -32768, 32767]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(FloatingPointError):
        to_pcm(np.array([0.0, bad], np.float32))
