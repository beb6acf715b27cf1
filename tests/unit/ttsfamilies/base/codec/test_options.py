"""Buckets of a codec's steps."""

import pytest

from ttsfamilies.base.codec.options import BatchShape, DeviceLimits, Shapes
from vocoder.engine.scheduler import BatchLimits, Ready, schedule

ROOM = DeviceLimits(states=32, streams=16, frames=32, stream_frames=16)


@pytest.mark.parametrize(
    ("extra", "work", "padded"),
    [
        *((3, (1, 1), (1, 1)), (3, (3, 5), (4, 8)), (3, (16, 17), (16, 19)), (3, (2, 0), (2, 1))),
        # Beyond all buckets to powers of two.
        *((0, (17, 3), (32, 4)), (0, (1, 100), (1, 128))),
    ],
)
def test_work_is_padded_to_the_least_bucket_that_holds_it(
    extra: int, work: tuple[int, int], padded: tuple[int, int]
) -> None:
    assert Shapes(ROOM, extra).fit(*work) == padded


@pytest.mark.parametrize("extra", [0, 3, 25])
def test_whatever_the_scheduler_picks_is_expected(extra: int) -> None:
    shapes = Shapes(ROOM, extra)
    expected = set(shapes.expected())
    limits = BatchLimits(ROOM.streams, ROOM.frames, ROOM.stream_frames)
    for streams in range(1, 20):
        for frames in range(1, 40):
            ready = [Ready(str(n), frames, False, 0.0) for n in range(streams)]
            picks = schedule(ready, limits)
            longest = max(pick.frames for pick in picks)
            for each in (longest, longest + extra):
                assert shapes.fit(min(len(picks), shapes.most_rows(each)), each) in expected


@pytest.mark.parametrize("limit", [16, 30, 32])
def test_no_launch_computes_more_frames_than_a_step_may_have(limit: int) -> None:
    """Five streams of five frames were padded to 64."""
    shapes = Shapes(DeviceLimits(states=32, streams=16, frames=limit, stream_frames=16))
    assert shapes.most_rows(5) == limit // 8 // 2 * 2
    for frames in range(1, 17):
        rows = shapes.most_rows(frames)
        padded = shapes.fit(rows, frames)
        assert padded.rows * padded.frames <= limit
    assert all(shape.rows * shape.frames <= limit for shape in shapes.expected())


def test_what_never_comes_up_is_not_expected() -> None:
    expected = Shapes(ROOM).expected()
    assert BatchShape(16, 16) not in expected
    assert BatchShape(16, 2) in expected
    assert expected[0].rows * expected[0].frames == max(r * f for r, f in expected)


@pytest.mark.parametrize("bad", [{"streams": 0}, {"states": 3, "streams": 4}])
def test_limits_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        DeviceLimits(**bad)
