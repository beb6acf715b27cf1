"""Durations stay whole, even and in pace; pitch moves around the speaker's middle."""

import numpy as np
import pytest

from ttsfamilies.vesper.codec.net import MIDDLE_HZ
from voicetrain.vesper.variation import (
    LEAD_UNITS,
    PACE_RANGE,
    TAIL_UNITS,
    draw_manner,
    durations,
    shifted,
    spread,
    walked,
)


def test_tokens_end_where_they_did_and_none_lasts_less_than_a_unit() -> None:
    assert spread(np.full(5, 1.4)).tolist() == [1, 2, 1, 2, 1]
    assert spread(np.array([0.2, 0.2, 2.6])).tolist() == [1, 1, 1]


@pytest.mark.parametrize("pace", [0.7, 1.0, 1.4])
def test_an_utterance_is_whole_frames_between_short_silences(pace: float) -> None:
    inner = np.full(40, 4.0)
    units = durations(np.array([14.0, *inner, 6.0]), pace)
    assert units.sum() % 2 == 0
    assert units[0] == LEAD_UNITS
    assert units[-1] in (TAIL_UNITS, TAIL_UNITS + 1)
    assert units[1:-1].sum() == pytest.approx(160 / pace, abs=1)


def test_rhythm_varies_and_pace_does_not(generator: np.random.Generator) -> None:
    plain = np.array([14.0, *np.full(400, 4.0), 6.0])
    varied = durations(plain, 1.0, generator)
    assert len(set(varied[1:-1].tolist())) > 2
    assert varied.sum() == pytest.approx(durations(plain, 1.0).sum(), rel=0.03)


def test_pitch_is_shifted_and_stretched_where_it_is_voiced() -> None:
    f0 = np.array([0.0, MIDDLE_HZ, 2 * MIDDLE_HZ, -0.3], np.float32)
    moved = shifted(f0, np.log(1.1), 0.5)
    assert moved[[0, 3]].tolist() == f0[[0, 3]].tolist()
    assert moved[1:3] == pytest.approx([1.1 * MIDDLE_HZ, 1.1 * 2**0.5 * MIDDLE_HZ], rel=1e-5)


def test_the_walk_is_slow_and_leaves_silence_alone(generator: np.random.Generator) -> None:
    f0 = np.full(400, 200.0, np.float32)
    f0[:50] = 0
    made = walked(f0, generator)
    assert (made[:50] == 0).all()
    assert 0 < np.abs(np.diff(np.log(made[50:]))).max() < 0.01


def test_paces_are_mostly_near_the_teachers(generator: np.random.Generator) -> None:
    paces = np.array([draw_manner(generator).pace for _ in range(2000)])
    assert PACE_RANGE[0] <= paces.min()
    assert paces.max() <= PACE_RANGE[1]
    assert 0.5 < np.mean(np.abs(np.log(paces)) < 0.12) < 0.75
