import numpy as np
import pytest

from antiphon_bench.account import AudibleDetector, PlaybackAccount

RATE = 1000  # one sample a millisecond: times can be read off


def test_chunks_in_time_are_viable_and_slack_is_what_is_left_to_play() -> None:
    account = PlaybackAccount(RATE)
    assert account.feed(1.0, 100).slack_s is None
    assert account.feed(1.04, 100).slack_s == pytest.approx(0.06)
    assert account.feed(1.15, 50).slack_s == pytest.approx(0.05)
    assert account.viable
    assert account.min_slack_s == pytest.approx(0.05)
    assert account.audio_s == pytest.approx(0.25)
    assert account.underruns == 0
    assert account.ends_at_s == pytest.approx(1.25)


def test_a_chunk_exactly_on_time_is_viable() -> None:
    account = PlaybackAccount(RATE)
    account.feed(0.1, 200)
    verdict = account.feed(0.1 + 0.2, 200)
    assert verdict.viable
    assert account.underruns == 0


def test_a_late_chunk_does_not_move_the_deadlines_of_equation_2() -> None:
    account = PlaybackAccount(RATE)
    account.feed(0.0, 100)
    assert not account.feed(0.15, 100).viable  # due at 0.1
    late = account.feed(0.22, 100)  # due at 0.2, although a paused player would still play
    assert not late.viable
    assert late.slack_s == pytest.approx(-0.02)
    assert account.viable_chunks == 1
    assert account.min_slack_s == pytest.approx(-0.05)


def test_an_underrun_counts_once_and_for_the_gap_a_listener_hears() -> None:
    account = PlaybackAccount(RATE)
    account.feed(0.0, 100)
    assert account.feed(0.15, 100).plays_at_s == pytest.approx(0.15)  # gap of 0.05
    assert account.feed(0.22, 100).plays_at_s == pytest.approx(0.25)  # the player resumed late
    assert account.feed(0.45, 100).plays_at_s == pytest.approx(0.45)  # gap of 0.10
    assert account.underruns == 2
    assert account.underrun_s == pytest.approx(0.15)
    assert not account.viable


def test_one_chunk_is_viable_and_has_no_slack() -> None:
    account = PlaybackAccount(RATE)
    account.feed(0.3, 10)
    assert account.viable
    assert account.min_slack_s is None


def test_a_stream_without_audio_is_not_viable() -> None:
    assert not PlaybackAccount(RATE).viable


@pytest.mark.parametrize("samples", [0, -1])
def test_an_empty_chunk_is_a_mistake(samples: int) -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        PlaybackAccount(RATE).feed(0.0, samples)


def test_the_first_sample_above_the_threshold_is_found_once() -> None:
    detector = AudibleDetector(threshold_dbfs=-50.0)  # 32768 * 10 ** -2.5 = 103.6
    assert detector.feed(np.array([0, 103, -103], dtype=np.int16)) is None
    assert detector.feed(np.array([50, -104, 3000], dtype=np.int16)) == 1
    assert detector.found
    assert detector.feed(np.array([3000], dtype=np.int16)) is None


def test_the_most_negative_sample_is_loud() -> None:
    assert AudibleDetector().feed(np.array([0, -32768], dtype=np.int16)) == 1
