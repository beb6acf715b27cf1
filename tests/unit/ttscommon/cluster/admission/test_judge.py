"""Shares, predictions and floods, judged together."""

from __future__ import annotations

import pytest

from ttscommon.cluster.admission import AdmissionLimits, Forecast, Judge
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded

AHEAD = Forecast(ttfp_s=0.3, alone_s=0.1, room=4, next_room_s=0.5)


def judge(**weights: float) -> Judge:
    return Judge(weights or {"": 1.0}, AdmissionLimits(), 0.5)


def test_a_stream_that_fits_is_predicted_and_nothing_is_taken() -> None:
    made = judge()
    assert made.check(AHEAD, "", 10, 0.0) == (Standing.WITHIN, 0.3)
    assert made.shares.total == 0


def test_no_more_streams_than_the_gateway_may_have() -> None:
    made = judge()
    made.take("")
    with pytest.raises(Overloaded):
        made.check(AHEAD, "", 1, 0.0)


def test_a_key_that_floods_waits_for_its_silent_stream_while_another_is_served() -> None:
    made = judge(calm=1.0, flood=1.0)
    made.take("calm")
    made.take("flood")
    assert made.check(AHEAD, "flood", 10, 0.0)[0] is Standing.WITHIN
    made.refused("flood", 0.0)
    with pytest.raises(Overloaded):
        made.check(AHEAD, "flood", 10, 0.1)
    made.silent["flood"] -= 1
    made.check(AHEAD, "flood", 10, 0.2)


def test_what_first_sounds_took_is_learned_and_how_long_streams_stay() -> None:
    made = judge()
    for _ in range(50):
        made.learn(1.2, 0.3, 0.1, 0.0, alone=False)
    with pytest.raises(Overloaded, match="the first sound would take"):
        made.check(AHEAD, "", 10, 0.0)
    before_s = made.hold_s
    made.held(before_s + 10.0)
    assert made.hold_s == pytest.approx(before_s + 1.0)
