"""Signs of a runaway are functions of frames, and come early and late."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from ttsfamilies.base.talker.signs import RunawaySigns, Seen, Sign, Stall, Watch, letters, longest_s

RATE_HZ = 10.0


def found(
    codes: Sequence[int] = (),
    *,
    reached: Sequence[int] = (),
    first: int = 0,
    budget: float = math.inf,
    early: bool = False,
) -> Sign | None:
    watch = Watch(RunawaySigns(Stall(4.0, 4)), RATE_HZ)
    frames = first + max(len(codes), len(reached) - first)
    return watch.find(Seen(frames, first, codes, reached, budget), early=early)


def test_speech_shows_none() -> None:
    codes = [(7 * i * i) % 101 for i in range(200)]
    reached = [i // 2 for i in range(200)]
    assert found(codes, reached=reached, budget=300) is None
    assert found(codes, reached=reached, budget=300, early=True) is None


def test_a_code_that_stays_is_a_drone_after_four_seconds_and_suspect_after_one() -> None:
    speech = list(range(30))  # whose last code is the second of two that a drone may have
    assert found([*speech, *[50] * 8], early=True) is None
    assert found([*speech, *[50] * 9], early=True) == "still"
    assert found([*speech, *[50] * 38]) is None
    assert found([*speech, *[50] * 39]) == "still"


@pytest.mark.parametrize("period", [3, 7, 15])
def test_codes_that_repeat_are_a_loop(period: int) -> None:
    loop = [*range(50, 50 + period)] * 20
    assert found([*range(30), *loop[: period + 40]]) == "repeat"
    assert found([*range(30), *loop[: period + 39]]) is None


def test_a_longer_period_is_no_loop() -> None:
    assert found([*range(16)] * 20) is None


def test_a_pointer_that_stands_still_is_a_stall() -> None:
    moving, standing = [*range(20)], [20] * 60
    assert found(reached=[*moving, *standing][:55]) is None
    assert found(reached=[*moving, *standing][:58]) == "stall"
    assert found(reached=[*moving, *standing][:40], early=True) == "stall"


def test_nothing_before_a_redraw_is_a_sign_of_it() -> None:
    standing = [*range(20), *[20] * 60]
    assert found(reached=standing, first=50) is None
    assert found([5] * 39, first=50) is None


def test_a_budget_is_suspect_at_three_quarters_and_a_redraw_has_two_seconds_more() -> None:
    assert found(range(75), budget=100, early=True) == "budget"
    assert found(range(99), budget=100) is None
    assert found(range(100), budget=100) == "budget"
    assert found(range(10), first=95, budget=100, early=True) == "budget"
    assert found(range(10), first=95, budget=100) is None
    assert found(range(20), first=95, budget=100) == "budget"


def test_texts_are_weighed_as_they_are_read() -> None:
    assert letters("one two") < letters("1234567")
    assert letters("世界你好") > letters("word")
    assert longest_s(50) - longest_s(0) == 2 * (longest_s(50, 2.0) - longest_s(0, 2.0))
