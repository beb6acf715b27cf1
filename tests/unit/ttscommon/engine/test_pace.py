import pytest

from ttscommon.engine.pace import RoundTimes


def test_a_round_gives_every_open_stream_a_frame_whoever_was_stepped() -> None:
    pace = RoundTimes()
    for _ in range(30):
        pace.add(streams=10, frames=5, seconds=0.02)  # half of them at a time
    assert pace.round_s == {10: pytest.approx(0.04)}


def test_work_without_frames_is_paid_by_the_frames_around_it() -> None:
    pace = RoundTimes()
    pace.add(streams=4, frames=0, seconds=0.15)
    assert pace.round_s == {}
    pace.add(streams=4, frames=20, seconds=0.15)
    assert pace.round_s == {4: pytest.approx(4 * 0.3 / 20)}


def test_sizes_not_seen_are_as_much_slower_as_those_that_were() -> None:
    pace = RoundTimes({1: 0.004, 16: 0.016})
    assert pace.round_s == {1: 0.004, 16: 0.016}
    pace.add(streams=1, frames=25, seconds=0.3)  # three times as slow as known
    assert pace.round_s == {1: pytest.approx(0.012), 16: pytest.approx(0.048)}


def test_a_busy_moment_is_forgotten() -> None:
    now = 0.0
    pace = RoundTimes({1: 0.004, 16: 0.016}, lambda: now)
    pace.add(streams=16, frames=16, seconds=0.4)
    assert pace.round_s[16] == pytest.approx(0.4)
    now = 60.0
    assert pace.round_s == {1: 0.004, 16: 0.016}
    pace.add(streams=1, frames=75, seconds=0.3)
    assert pace.round_s[16] == pytest.approx(0.016)


def test_old_windows_are_forgotten() -> None:
    pace = RoundTimes()
    for seconds in [0.5] * 8 + [0.3] * 8:
        pace.add(streams=1, frames=10, seconds=seconds)
    assert pace.round_s == {1: pytest.approx(0.03)}


def test_a_round_of_any_size_is_read_off_the_line() -> None:
    assert RoundTimes().at(5) == 0.0
    pace = RoundTimes({1: 0.004, 16: 0.019})
    assert pace.at(6) == pytest.approx(0.009)
    pace.add(streams=6, frames=150, seconds=0.45)  # 18 ms a round: twice as slow as known
    assert pace.at(16) == pytest.approx(0.038)
