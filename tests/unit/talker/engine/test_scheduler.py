"""Policies: who steps next."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talker.engine.scheduler import POLICIES, StepLimits, offline, online


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A candidate with nothing behind it."""

    key: str
    startup: bool
    slack_s: float
    positions: int
    arrived_s: float = 0.0
    waited_s: float = 0.0
    priority: int = 5
    whole: bool = False
    bulk: int = 0


def steady(key: object, slack_s: float, **changes: object) -> Waiting:
    return dataclasses.replace(Waiting(str(key), False, slack_s, 1), **changes)  # type: ignore[arg-type]


def starting(key: str, arrived_s: float = 0.0) -> Waiting:
    return Waiting(key, True, 0.0, 20, arrived_s)


def keys(candidates: list[Waiting]) -> list[str]:
    return [candidate.key for candidate in candidates]


def test_least_slack_steps_first_when_the_batch_is_full() -> None:
    chosen = online([steady("a", 0.9), steady("b", 0.1), steady("c", 0.5)], StepLimits(streams=2))
    assert keys(chosen) == ["b", "c"]


def test_startup_comes_first_within_its_share() -> None:
    waiting = [starting(f"s{i}", float(i)) for i in range(8)]
    chosen = online([steady("late", 0.1), *waiting], StepLimits(streams=4, startup_share=0.5))
    assert keys(chosen) == ["s0", "s1", "late", "s2"]


def test_the_well_supplied_step_aside_only_while_another_is_in_need() -> None:
    rich = steady("rich", 9.0)
    assert keys(online([rich, steady("poor", 0.2)], StepLimits())) == ["poor"]
    assert keys(online([rich], StepLimits())) == ["rich"]


def test_beside_a_startup_only_the_urgent_step() -> None:
    fine = [steady("fine", 0.9), steady("rich", 9.0)]
    chosen = online([*fine, steady("late", 0.1), starting("new")], StepLimits())
    assert keys(chosen) == ["new", "late"]


def test_a_batch_is_filled_while_no_stream_starts() -> None:
    fine = [steady(i, 40.0 - i) for i in range(40)]
    assert keys(online(fine, StepLimits(streams=32))) == [str(i) for i in range(39, 7, -1)]


def test_offline_fills_the_batch_in_order_of_arrival() -> None:
    candidates = [steady("b", 0.0, arrived_s=2.0), steady("a", 50.0, arrived_s=1.0)]
    assert keys(offline(candidates, StepLimits())) == ["a", "b"]


def test_a_prompt_larger_than_the_budget_still_runs_alone() -> None:
    huge = Waiting("huge", True, 0.0, 10_000)
    assert keys(online([huge, starting("small", 1.0)], StepLimits(positions=512))) == ["huge"]


def test_a_stream_that_waited_too_long_goes_before_all() -> None:
    waiting = [starting("new"), steady("late", 0.1), steady("forgotten", 99.0, waited_s=0.6)]
    assert keys(online(waiting, StepLimits(streams=1, starved_s=0.5))) == ["forgotten"]
    assert keys(online(waiting, StepLimits(streams=1, starved_s=0.7))) == ["new"]


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(-1, 20), st.integers(1, 300), st.floats(0, 2)),
        max_size=50,
    )
)
def test_every_policy_respects_the_limits_and_picks_somebody(
    name: str, rows: list[tuple[bool, float, int, float]]
) -> None:
    limits = StepLimits(streams=8, positions=512)
    candidates = [
        Waiting(str(i), startup, slack, positions, float(i), waited)
        for i, (startup, slack, positions, waited) in enumerate(rows)
    ]
    chosen = POLICIES[name](candidates, limits)
    assert len(set(keys(chosen))) == len(chosen) <= limits.streams
    assert len(chosen) == 1 or sum(c.positions for c in chosen) <= limits.positions
    assert bool(chosen) == bool(candidates)


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0, 30), st.integers(1, 9)), min_size=1, max_size=12
    ),
    st.integers(1, 4),
    st.floats(0.001, 0.1),
)
def test_no_stream_starves_however_urgent_the_others_are(
    streams: list[tuple[bool, float, int]], width: int, step_s: float
) -> None:
    """Startups that never end, empty listeners, priorities: all step within so many seconds."""
    limits = StepLimits(streams=width)
    waited = dict.fromkeys((str(i) for i in range(len(streams))), 0.0)
    worst_s = 0.0
    for _ in range(300):
        candidates = [
            Waiting(str(i), startup, slack, 1, waited_s=waited[str(i)], priority=priority)
            for i, (startup, slack, priority) in enumerate(streams)
        ]
        chosen = {c.key for c in online(candidates, limits)}
        for key in waited:
            waited[key] = 0.0 if key in chosen else waited[key] + step_s
        worst_s = max(worst_s, *waited.values())
    assert worst_s <= limits.starved_s + (len(streams) + 1) * step_s


def test_of_those_that_start_a_short_segment_comes_before_a_long_one() -> None:
    long, short, read = (
        dataclasses.replace(starting(name, float(at)), whole=True, bulk=bulk)
        for at, (name, bulk) in enumerate([("long", 900), ("short", 40), ("read", 0)])
    )
    assert keys(online([long, short, read], StepLimits())) == ["read", "short", "long"]
    waited = dataclasses.replace(long, waited_s=0.6)
    assert keys(online([waited, short, read], StepLimits())) == ["long", "read", "short"]


def test_a_listener_about_to_run_dry_gets_its_window_before_a_first_sound() -> None:
    window = steady("dry", 0.1, whole=True, positions=400)
    late = steady("late", 0.3, whole=True, positions=400)
    chosen = online([late, window, starting("new")], StepLimits(positions=410))
    assert keys(chosen) == ["dry"]
    assert keys(online([late, starting("new")], StepLimits(positions=410))) == ["new"]


@pytest.mark.parametrize(
    ("streams", "rounds"), [(0, 8), (1, 8), (3, 8), (4, 6), (6, 4), (12, 2), (99, 1)]
)
def test_a_launch_of_many_streams_has_fewer_rounds(streams: int, rounds: int) -> None:
    assert StepLimits(together=6).rounds(streams, 8) == rounds
