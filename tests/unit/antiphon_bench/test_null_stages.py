"""The pace of the null stages: never late, never far ahead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_bench.null_stages import FRAME_RATE_HZ, steps


@given(st.integers(1, 5000))
def test_every_chunk_leaves_before_the_listener_runs_dry_and_all_frames_are_sent(
    frames: int,
) -> None:
    plan = list(steps(frames))
    assert sum(step.frames for step in plan) == frames
    heard_until_s = plan[0].at_s
    for step in plan:
        ahead_s = heard_until_s - step.at_s
        assert 0.0 <= ahead_s <= 1.0 + 1e-9
        heard_until_s += step.frames / FRAME_RATE_HZ


def test_chunks_grow_from_a_tiny_first_one_to_a_second() -> None:
    assert [step.frames for step in steps(100)] == [3, 6, 12, 24, 25, 25, 5]
