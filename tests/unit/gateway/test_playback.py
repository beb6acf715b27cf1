from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.playback import PlaybackAccount

RATE = 16_000


def test_the_first_chunk_starts_playback() -> None:
    account = PlaybackAccount(RATE)
    arrival = account.feed(RATE, 100.0)
    assert (arrival.viable, arrival.slack_s, arrival.underrun_s) == (True, None, 0.0)
    assert account.slack_s(100.25) == pytest.approx(0.75)
    assert account.position_s(100.25) == pytest.approx(0.25)
    assert account.min_slack_s is None


def test_a_chunk_in_time_has_the_slack_that_was_left() -> None:
    account = PlaybackAccount(RATE)
    account.feed(RATE, 10.0)
    arrival = account.feed(RATE, 10.4)
    assert arrival.viable
    assert arrival.slack_s == pytest.approx(0.6)
    assert account.slack_s(10.4) == pytest.approx(1.6)


def test_a_chunk_exactly_at_the_end_of_playback_is_viable() -> None:
    account = PlaybackAccount(RATE)
    account.feed(RATE, 0.0)
    arrival = account.feed(RATE, 1.0)
    assert arrival.viable
    assert account.underruns == 0


def test_a_late_chunk_is_an_underrun_and_playback_pauses_for_it() -> None:
    account = PlaybackAccount(RATE)
    account.feed(RATE, 0.0)
    assert account.position_s(1.3) == pytest.approx(1.0)
    arrival = account.feed(RATE, 1.5)
    assert not arrival.viable
    assert arrival.slack_s == pytest.approx(-0.5)
    assert account.underrun_s == pytest.approx(0.5)
    assert account.position_s(1.6) == pytest.approx(1.1)


def test_equation_2_keeps_its_undisturbed_clock_after_a_gap() -> None:
    """Playback has recovered, but the chunk is still later than equation 2 allows."""
    account = PlaybackAccount(RATE)
    account.feed(RATE, 0.0)
    account.feed(RATE, 1.5)
    arrival = account.feed(RATE, 2.2)
    assert arrival.slack_s == pytest.approx(0.3)
    assert not arrival.viable
    assert (account.underruns, account.late_chunks) == (1, 2)


@given(
    st.lists(
        st.tuples(st.integers(1, 4 * RATE), st.floats(0, 3, allow_nan=False)),
        min_size=1,
        max_size=40,
    )
)
def test_heard_silent_and_left_always_add_up(chunks: list[tuple[int, float]]) -> None:
    account = PlaybackAccount(RATE)
    now = begun = 50.0
    for samples, wait_s in chunks:
        now += wait_s if account.started else 0.0
        account.feed(samples, now)
        heard = account.position_s(now)
        assert heard + account.underrun_s == pytest.approx(now - begun, abs=1e-6)
        assert 0 <= heard <= account.duration_s
    assert account.viable or account.underruns >= 1
    assert account.duration_s == sum(samples for samples, _ in chunks) / RATE


def test_a_sample_rate_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        PlaybackAccount(0)
