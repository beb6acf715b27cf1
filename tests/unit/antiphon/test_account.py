"""The account that `antiphon say` shows; slack and gaps: test_playback.py of ttscommon."""

from __future__ import annotations

import pytest

from antiphon.client import Started
from antiphon.say import Heard

SECOND = b"\0\0" * 1000


def test_nothing_heard_measures_nothing() -> None:
    nothing = Heard(10.0)
    assert (nothing.ttfp_s, nothing.realtime_factor, nothing.audio_s) == (None, None, 0.0)


def test_waits_are_counted_from_the_first_text_sent() -> None:
    one = Heard(10.0)
    one.take(Started("a request", 1000, "slt", 0))
    one.hear(SECOND[:1000], 10.1)
    one.hear(SECOND[:1000], 10.4)
    assert one.ttfp_s == pytest.approx(0.1)
    assert one.realtime_factor == pytest.approx(0.4)
    assert one.playback is not None
    assert one.playback.min_slack_s == pytest.approx(0.2)


def test_audio_needs_a_rate() -> None:
    with pytest.raises(ValueError, match="sample rate"):
        Heard(10.0).hear(SECOND, 10.1)
