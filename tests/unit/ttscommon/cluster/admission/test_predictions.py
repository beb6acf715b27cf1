"""Predictions of first sounds, and what is learned from them."""

from __future__ import annotations

import pytest

from ttscommon.cluster.admission.forecast import Forecast
from ttscommon.cluster.admission.limits import AdmissionLimits
from ttscommon.cluster.admission.predictions import Predictions
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded

AHEAD = Forecast(ttfp_s=0.3, alone_s=0.1, room=4, next_room_s=0.5)


def predictions() -> Predictions:
    return Predictions(AdmissionLimits(), target_s=0.5)


def test_what_is_soon_enough_is_predicted_without_correction() -> None:
    assert predictions().check(AHEAD, Standing.WITHIN, 0.0) == 0.3


def test_where_first_sounds_take_longer_than_predicted_the_same_is_refused() -> None:
    made = predictions()
    for _ in range(50):
        made.learn(4.0, 8.0, 0.0, alone=False)
    with pytest.raises(Overloaded, match="the first sound would take"):
        made.check(AHEAD, Standing.WITHIN, 0.0)


def test_a_borrowed_stream_may_not_slow_others() -> None:
    with pytest.raises(Overloaded, match="share"):
        predictions().check(AHEAD, Standing.BORROWED, 0.0)


def test_beyond_the_share_nothing_is_predicted() -> None:
    with pytest.raises(Overloaded, match="share"):
        predictions().check(AHEAD, Standing.OVER, 0.0)
