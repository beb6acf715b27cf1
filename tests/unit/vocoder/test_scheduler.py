from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocoder.engine.scheduler import BatchLimits, Ready, schedule


def steady(key: str, deadline_s: float, frames: int = 4, waited_s: float = 0.0) -> Ready:
    return Ready(key, frames, startup=False, deadline_s=deadline_s, waited_s=waited_s)


def starting(key: str, arrived_s: float = 0.0, frames: int = 2) -> Ready:
    return Ready(key, frames, startup=True, deadline_s=arrived_s, arrived_s=arrived_s)


def keys(ready: list[Ready], limits: BatchLimits) -> list[object]:
    return [pick.key for pick in schedule(ready, limits)]


def test_the_listener_who_runs_dry_first_is_served_first() -> None:
    ready = [steady("late", 3.0), steady("soon", 1.0), steady("later", 4.0)]
    assert keys(ready, BatchLimits(streams=2)) == ["soon", "late"]


def test_startup_goes_before_streams_that_have_something_to_play() -> None:
    assert keys([steady("old", 0.1), starting("new")], BatchLimits(streams=2)) == ["new", "old"]


def test_startup_takes_only_its_share_while_others_wait() -> None:
    ready = [starting(f"new{i}", i) for i in range(4)] + [steady("old", 9.0)]
    assert keys(ready, BatchLimits(streams=4, startup_share=0.5)) == ["new0", "new1", "old", "new2"]


def test_long_startup_chunks_do_not_take_more_frames_than_their_share() -> None:
    ready = [starting(f"new{i}", i, frames=8) for i in range(4)] + [steady("old", 9.0)]
    assert keys(ready, BatchLimits(streams=16, frames=32))[:3] == ["new0", "new1", "old"]


def test_startup_takes_everything_when_no_other_stream_waits() -> None:
    ready = [starting(f"new{i}", i) for i in range(4)]
    assert len(schedule(ready, BatchLimits(streams=4, frames=8))) == 4


def test_earlier_arrivals_of_higher_priority_start_first() -> None:
    ready = [starting("b", 2.0), starting("a", 1.0), replace(starting("vip", 3.0), priority=9)]
    assert keys(ready, BatchLimits()) == ["vip", "a", "b"]


def test_an_offline_stream_steps_only_where_no_other_could() -> None:
    book = replace(starting("book"), offline=True, startup=False)
    assert keys([book, steady("heard", 99.0)], BatchLimits()) == ["heard"]
    assert keys([book], BatchLimits()) == ["book"]


def test_a_long_chunk_is_cut_so_that_the_step_stays_short() -> None:
    limits = BatchLimits(frames=32, stream_frames=16)
    (pick,) = schedule([steady("long", 1.0, frames=400)], limits)
    assert pick.frames == 16


def test_a_long_chunk_that_comes_late_is_cut_to_the_room_that_is_left() -> None:
    ready = [starting("a"), starting("b"), steady("long", 1.0, frames=400)]
    picks = schedule(ready, BatchLimits(streams=8, frames=12, stream_frames=12))
    assert [(pick.key, pick.frames) for pick in picks] == [("a", 2), ("b", 2), ("long", 4)]


def test_a_tail_alone_is_work_of_no_frames() -> None:
    (pick,) = schedule([steady("ending", 1.0, frames=0)], BatchLimits())
    assert pick.frames == 0


def test_a_stream_that_waited_too_long_goes_before_all() -> None:
    ready = [starting("new"), steady("soon", 0.0), steady("forgotten", 99.0, waited_s=1.5)]
    assert keys(ready, BatchLimits(streams=1, starved_s=1.0)) == ["forgotten"]


@pytest.mark.parametrize("bad", [{"streams": 0}, {"frames": 0}, {"startup_share": 0.0}])
def test_limits_without_room_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        BatchLimits(**bad)


limits_ = st.builds(
    BatchLimits,
    streams=st.integers(1, 8),
    frames=st.integers(1, 40),
    stream_frames=st.integers(1, 20),
    startup_share=st.floats(0.01, 1.0),
    starved_s=st.floats(0.01, 0.06),
)
ready_ = st.builds(
    Ready,
    key=st.integers(0, 10_000).map(str),
    frames=st.integers(0, 60),
    startup=st.booleans(),
    deadline_s=st.floats(-5, 5),
    arrived_s=st.floats(0, 5),
    waited_s=st.floats(0, 0.1),
    priority=st.integers(0, 9),
)


@given(st.lists(ready_, min_size=1, max_size=30, unique_by=lambda r: r.key), limits_)
def test_a_step_is_never_empty_and_never_over_its_limits(
    ready: list[Ready], limits: BatchLimits
) -> None:
    picks = schedule(ready, limits)
    by_key = {stream.key: stream for stream in ready}
    assert 1 <= len(picks) <= limits.streams
    assert len({pick.key for pick in picks}) == len(picks)
    assert len(picks) * max(pick.frames for pick in picks) <= limits.frames
    for pick in picks:
        waiting = by_key[pick.key].frames
        assert pick.frames <= min(waiting, limits.stream_frames)
        assert pick.frames > 0 or waiting == 0, "a pick makes progress"


def test_steps_that_prepare_take_no_room_from_frames_nor_wait_for_it() -> None:
    limits = BatchLimits(streams=4, frames=16, stream_frames=16)
    long = Ready("long", 30, startup=True, deadline_s=0.0)
    step = Ready("step", 25, startup=True, deadline_s=0.0, arrived_s=1.0, prepares=True)
    other = Ready("other", 30, startup=True, deadline_s=0.0, arrived_s=2.0)
    picks = schedule([long, step, other], limits)
    assert [(pick.key, pick.frames) for pick in picks] == [("long", 16), ("step", 0)]


@given(
    limits=limits_,
    rivals=st.lists(st.tuples(st.booleans(), st.integers(0, 60)), min_size=1, max_size=12),
    frames=st.integers(0, 60),
)
def test_no_stream_starves_whatever_else_keeps_coming(
    limits: BatchLimits, rivals: list[tuple[bool, int]], frames: int
) -> None:
    """Rivals are always ready and more urgent; the victim waits a bounded time all the same."""
    victim = Ready("victim", frames, startup=False, deadline_s=1e9)
    others = [
        Ready(str(i), max(1, length), startup=startup, deadline_s=-1e9, arrived_s=-1.0)
        for i, (startup, length) in enumerate(rivals)
    ]
    ready = [victim, *others]
    step_s = 0.01
    most = round(limits.starved_s / step_s) + 1 + len(ready)
    for _ in range(most):
        picked = {pick.key for pick in schedule(ready, limits)}
        if "victim" in picked:
            return
        ready = [
            replace(stream, waited_s=0.0 if stream.key in picked else stream.waited_s + step_s)
            for stream in ready
        ]
    raise AssertionError(f"not served in {most} steps")
