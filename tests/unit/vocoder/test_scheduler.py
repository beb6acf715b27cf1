from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocoder.engine.scheduler import BatchLimits, Ready, schedule


def steady(key: str, deadline_s: float, frames: int = 4, waited_s: float = 0.0) -> Ready:
    return Ready(key, frames, startup=False, deadline_s=deadline_s, waited_s=waited_s)


def starting(key: str, arrived_s: float = 0.0, frames: int = 2) -> Ready:
    return Ready(key, frames, startup=True, deadline_s=arrived_s, arrived_s=arrived_s)


FOUR = [starting(f"new{i}", i) for i in range(4)]
OLD = steady("old", 9.0)
BOOK = replace(starting("book"), offline=True, startup=False)
WHOLE = [
    Ready(key, frames, startup=True, deadline_s=0.0, arrived_s=at, prepares=key == "step")
    for at, (key, frames) in enumerate([("long", 30), ("step", 25), ("other", 30)])
]
# Who is served, and with how many frames where that is not all.
STEPS: dict[str, tuple[list[Ready], BatchLimits, str]] = {
    "the listener who runs dry first": (
        [steady("late", 3.0), steady("soon", 1.0), steady("later", 4.0)],
        BatchLimits(streams=2), "soon late",
    ),
    "a startup before those that have something to play": (
        [steady("old", 0.1), starting("new")], BatchLimits(streams=2), "new old",
    ),
    "startups within their share while others wait": (
        [*FOUR, OLD], BatchLimits(streams=4, startup_share=0.5), "new0 new1 old new2",
    ),
    "and within their share of frames": (
        [*(replace(new, frames=8) for new in FOUR), OLD],
        BatchLimits(streams=16, frames=32), "new0 new1 old new2",
    ),
    "all startups where no other waits": (
        FOUR, BatchLimits(streams=4, frames=8), "new0 new1 new2 new3",
    ),
    "of startups the higher priority, then the earlier": (
        [starting("b", 2.0), starting("a", 1.0), replace(starting("vip", 3.0), priority=9)],
        BatchLimits(), "vip a b",
    ),
    "a job only where no other could": ([BOOK, steady("heard", 99.0)], BatchLimits(), "heard"),
    "and there it is": ([BOOK], BatchLimits(), "book"),
    "of a long chunk a part, so that the step stays short": (
        [steady("long", 1.0, frames=400)], BatchLimits(frames=32, stream_frames=16), "long:16",
    ),
    "and no more than there is room for": (
        [starting("a"), starting("b"), steady("long", 1.0, frames=400)],
        BatchLimits(streams=8, frames=12, stream_frames=12), "a b long:4",
    ),
    "a tail alone": ([steady("ending", 1.0, frames=0)], BatchLimits(), "ending"),
    "one that waited too long before all": (
        [starting("new"), steady("soon", 0.0), steady("forgotten", 99.0, waited_s=1.5)],
        BatchLimits(streams=1, starved_s=1.0), "forgotten",
    ),
    "work that prepares, which takes no room from frames nor waits for it": (
        WHOLE, BatchLimits(streams=4, frames=16, stream_frames=16), "long:16 step:0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_step_serves(name: str) -> None:
    ready, limits, wanted = STEPS[name]
    waiting = {stream.key: stream.frames for stream in ready}
    picks = [
        pick.key if pick.frames == waiting[pick.key] else f"{pick.key}:{pick.frames}"
        for pick in schedule(ready, limits)
    ]
    assert picks == wanted.split()


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
