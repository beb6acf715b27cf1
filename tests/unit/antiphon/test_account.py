"""The listener's account against cases worked out by hand."""

from __future__ import annotations

import pytest

from antiphon.account import ListenerAccount

SECOND = b"\0\0" * 1000


def account(*arrivals: tuple[float, float]) -> ListenerAccount:
    """(arrival, seconds of audio) ..., asked at 10.0, at 1000 samples a second."""
    result = ListenerAccount(10.0, sample_rate=1000)
    for now_s, audio_s in arrivals:
        result.hear(SECOND[: int(audio_s * 1000) * 2], now_s)
    return result


def test_nothing_heard_measures_nothing() -> None:
    nothing = account()
    assert (nothing.ttfp_s, nothing.realtime_factor, nothing.least_slack_s) == (None, None, None)


def test_one_piece_has_a_first_sound_and_no_slack() -> None:
    one = account((10.1, 0.5))
    assert one.ttfp_s == pytest.approx(0.1)
    assert one.realtime_factor == pytest.approx(0.2)
    assert one.least_slack_s is None


def test_slack_is_the_playback_left_when_more_comes() -> None:
    steady = account((10.1, 0.5), (10.2, 0.5), (10.9, 0.5))
    assert steady.least_slack_s == pytest.approx(0.2)
    assert steady.gaps_s == 0.0
    assert steady.audio_s == pytest.approx(1.5)


def test_a_late_piece_is_a_gap_that_shifts_what_follows() -> None:
    late = account((10.0, 0.5), (11.0, 0.5), (11.4, 0.5))
    assert late.gaps_s == pytest.approx(0.5)
    assert late.least_slack_s == pytest.approx(-0.5)
