"""Drafts are compared on the same frames, and their gains are counted."""

from __future__ import annotations

from antiphon_bench.drafts import compare
from talker.models.fake import Curve, FakeModel, Manner


def test_every_width_says_the_same_and_wide_steps_gain_more() -> None:
    manner = Manner(cached=True, frames_per_step=4)
    family = FakeModel("m", Curve(), lambda _: None, manner)
    ticks = iter(range(1000))
    found = list(compare(family, [2], [1, 4, 0], rounds=2, clock=lambda: float(next(ticks))))
    assert [one.width for one in found] == [1, 4, 0]
    assert len({one.frames for one in found}) == 1
    plain, wide, _ = found
    assert plain.gained == 1.0
    assert wide.gained > 1.5
