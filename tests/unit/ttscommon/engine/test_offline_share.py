"""When listeners are expected, and what jobs may take then."""

from __future__ import annotations

import pytest

from ttscommon.engine.offline import OfflineShare, OfflineTuning


def test_a_listener_is_expected_for_a_while_after_the_last_one() -> None:
    share = OfflineShare(OfflineTuning(expected_s=5.0))
    assert not share.expects(0.0)
    share.heard(1.0)
    assert share.expects(5.9)
    assert not share.expects(6.0)


def test_steps_become_as_large_as_there_is_time_for() -> None:
    share = OfflineShare(OfflineTuning(step_s=0.010))
    share.heard(0.0)
    for _ in range(100):
        share.stepped(0.0, 0.002 * share.size, share.size)
    assert share.size in (4, 5)
    for _ in range(10):
        share.stepped(0.0, 0.5, share.size)
    assert share.size == 1


def test_a_step_that_was_not_full_says_nothing_of_larger_ones() -> None:
    share = OfflineShare()
    share.heard(0.0)
    for _ in range(20):
        share.stepped(0.0, 0.001, 1)
    assert share.size == 2


def test_half_of_the_time_is_left() -> None:
    share = OfflineShare(OfflineTuning(share=0.5))
    share.stepped(0.0, 0.010, 1)
    assert share.pause_s(0.0) <= 0.0
    share.heard(0.0)
    share.stepped(1.0, 0.010, 1)
    assert share.pause_s(1.0) == pytest.approx(0.010)


def test_nothing_is_taken_while_a_listener_comes() -> None:
    share = OfflineShare(OfflineTuning(first_s=0.5))
    share.coming(1.0)
    assert share.expects(1.0)
    assert share.pause_s(1.4) > 0.0
    assert share.pause_s(1.5) <= 0.0
