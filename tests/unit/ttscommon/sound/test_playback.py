"""Headroom: nothing while chunks come in time, enough when they do not, and no more for ever."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.sound.playback import Arrival, Headroom, PlaybackAccount

RATE = 16_000


def test_the_first_chunk_starts_playback() -> None:
    account = PlaybackAccount(RATE)
    arrival = account.feed(RATE, 100.0)
    assert arrival == Arrival(viable=True, slack_s=None, underrun_s=0.0, plays_at_s=100.0)
    assert account.slack_s(100.25) == pytest.approx(0.75)
    assert account.position_s(100.25) == pytest.approx(0.25)
    assert account.min_slack_s is None


@pytest.mark.parametrize(
    ("rate", "samples", "first_s", "then_s", "left_s"),
    [
        (RATE, RATE, 10.0, 10.4, 0.6),
        (RATE, RATE, 0.0, 1.0, 0.0),  # exactly at the end
        (1000, 200, 0.1, 0.1 + 0.2, 0.0),  # late by rounding alone
    ],
)
def test_a_chunk_in_time_has_the_slack_that_was_left(
    rate: int, samples: int, first_s: float, then_s: float, left_s: float
) -> None:
    account = PlaybackAccount(rate)
    account.feed(samples, first_s)
    arrival = account.feed(samples, then_s)
    assert arrival.viable
    assert arrival.slack_s == pytest.approx(left_s)
    assert account.slack_s(then_s) == pytest.approx(left_s + samples / rate)
    assert account.underruns == 0


def test_neither_rates_nor_chunks_are_empty() -> None:
    with pytest.raises(ValueError, match="positive"):
        PlaybackAccount(0)
    with pytest.raises(ValueError, match="at least one sample"):
        PlaybackAccount(1000).feed(0, 0.0)


def test_playback_pauses_in_a_gap_and_equation_2_keeps_its_undisturbed_clock() -> None:
    """Playback has recovered, but the chunk is still later than equation 2 allows."""
    account = PlaybackAccount(RATE)
    account.feed(RATE, 0.0)
    assert account.position_s(1.3) == pytest.approx(1.0)
    arrival = account.feed(RATE, 1.5)
    assert not arrival.viable
    assert arrival.slack_s == pytest.approx(-0.5)
    assert account.position_s(1.6) == pytest.approx(1.1)
    arrival = account.feed(RATE, 2.2)
    assert arrival.slack_s == pytest.approx(0.3)
    assert not arrival.viable
    assert (account.underruns, account.viable_chunks, account.chunks) == (1, 1, 3)


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


def test_an_underrun_counts_once_and_for_the_gap_a_listener_hears() -> None:
    account = PlaybackAccount(1000)
    account.feed(100, 0.0)
    assert account.feed(100, 0.15).plays_at_s == pytest.approx(0.15)  # gap of 0.05
    assert account.feed(100, 0.22).plays_at_s == pytest.approx(0.25)  # the player resumed late
    assert account.feed(100, 0.45).plays_at_s == pytest.approx(0.45)  # gap of 0.10
    assert account.underruns == 2
    assert account.underrun_s == pytest.approx(0.15)
    assert account.longest_underrun_s == pytest.approx(0.10)


def test_nothing_is_asked_for_before_anything_is_known_or_while_chunks_come_in_time() -> None:
    headroom = Headroom()
    assert headroom.seconds == 0.0
    for _ in range(50):
        headroom.add(0.0, 0.1, 0.08)
    assert headroom.seconds == 0.0


@pytest.mark.parametrize("delay_s", [0.05, 0.12, 0.2])
def test_streams_that_lack_sound_come_to_have_enough(delay_s: float) -> None:
    """Of 400 streams whose second chunk takes `delay_s` longer than usual, more or less."""
    dice, headroom, slacks = Random(1), Headroom(), []
    for _ in range(400):
        given_s = headroom.seconds
        slack_s = 0.07 + given_s - delay_s * dice.uniform(0.7, 1.3)
        headroom.add(given_s, 0.07 + given_s, slack_s)
        slacks.append(slack_s)
    assert min(slacks[50:]) > 0.0
    assert headroom.seconds < 2.0 * delay_s


def test_a_first_chunk_that_is_longer_than_asked_for_is_no_sign_of_late_ones() -> None:
    """As where frames come in windows, or a voice begins with silence that is not sent."""
    dice, headroom = Random(1), Headroom()
    for _ in range(200):
        first_s = 0.15 + dice.choice((0.0, 0.3)) + headroom.seconds
        headroom.add(headroom.seconds, first_s, first_s - dice.uniform(0.02, 0.05))
        assert headroom.seconds == 0.0


def test_the_shortest_first_chunk_of_late_is_what_there_is() -> None:
    headroom, needed_s = Headroom(), 0.2
    for n in range(100):
        first_s = (0.4 if n % 8 else 0.1) + headroom.seconds
        headroom.add(headroom.seconds, first_s, first_s - needed_s)
        assert headroom.seconds > needed_s - 0.1


def test_it_goes_when_the_trouble_has_gone() -> None:
    headroom = Headroom()
    for _ in range(20):
        headroom.add(headroom.seconds, headroom.seconds + 0.1, headroom.seconds - 0.1)
    assert headroom.seconds > 0.1
    for _ in range(120):
        headroom.add(headroom.seconds, headroom.seconds + 0.1, headroom.seconds + 0.08)
    assert headroom.seconds == 0.0


def test_a_machine_that_cannot_keep_up_does_not_make_first_sounds_later_without_end() -> None:
    headroom = Headroom()
    for _ in range(50):
        headroom.add(headroom.seconds, headroom.seconds + 0.1, -3.0)
    assert headroom.seconds == 0.4
