"""Drafts are compared on the same frames, and their gains are counted."""

from __future__ import annotations

from antiphon_bench.drafts import Case, compare
from ttsfamilies.fake.talker import Curve, FakeModel, Manner


def test_every_width_says_the_same_and_wide_steps_gain_more() -> None:
    manner = Manner(cached=True, frames_per_step=4)
    family = FakeModel("m", Curve(), lambda _: None, manner)
    ticks = iter(range(1000))
    cases = [Case(f"width {width}", family, width) for width in (1, 4, 0)]
    found = list(compare(cases, [2], rounds=2, clock=lambda: float(next(ticks))))
    assert [one.case for one in found] == ["width 1", "width 4", "width 0"]
    assert len({one.frames for one in found}) == 1
    plain, wide, _ = found
    assert plain.gained == 1.0
    assert wide.gained > 1.5
