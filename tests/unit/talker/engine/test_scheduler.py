"""Policies: who steps next, and who waits for others to step with."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talker.engine.scheduler import POLICIES, Company, StepLimits, offline, online


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


def starting(key: str, arrived_s: float = 0.0, **changes: object) -> Waiting:
    return dataclasses.replace(Waiting(key, True, 0.0, 20, arrived_s), **changes)  # type: ignore[arg-type]


def keys(candidates: list[Waiting]) -> list[str]:
    return [candidate.key for candidate in candidates]


RICH, FINE, LATE, NEW = (
    steady("rich", 9.0),
    steady("fine", 0.9),
    steady("late", 0.1),
    starting("new"),
)
FORGOTTEN = steady("forgotten", 99.0, waited_s=0.6)
LONG, SHORT, READ = (
    starting(name, float(at), whole=True, bulk=bulk)
    for at, (name, bulk) in enumerate([("long", 900), ("short", 40), ("read", 0)])
)
WINDOW = steady("window", 0.1, whole=True, positions=400)
LATER_WINDOW = steady("later", 0.3, whole=True, positions=400)

ORDERS: dict[str, tuple[list[Waiting], StepLimits, str]] = {
    "least slack first when the batch is full": (
        [FINE, LATE, steady("c", 0.5)], StepLimits(streams=2), "late c",
    ),
    "a startup first within its share": (
        [LATE, *(starting(f"s{i}", float(i)) for i in range(8))],
        StepLimits(streams=4, startup_share=0.5), "s0 s1 late s2",
    ),
    "the well supplied step aside while another is in need": (
        [RICH, steady("poor", 0.2)], StepLimits(), "poor",
    ),
    "and not otherwise": ([RICH], StepLimits(), "rich"),
    "beside a startup only the urgent": ([FINE, RICH, LATE, NEW], StepLimits(), "new late"),
    "a prompt larger than the budget still runs, alone": (
        [starting("huge", positions=10_000), starting("small", 1.0)], StepLimits(), "huge",
    ),
    "one that waited too long before all": (
        [NEW, LATE, FORGOTTEN], StepLimits(streams=1, starved_s=0.5), "forgotten",
    ),
    "and not before that": ([NEW, LATE, FORGOTTEN], StepLimits(streams=1, starved_s=0.7), "new"),
    "of those that start, a short segment before a long one": (
        [LONG, SHORT, READ], StepLimits(), "read short long",
    ),
    "unless that waited too long": (
        [dataclasses.replace(LONG, waited_s=0.6), SHORT, READ], StepLimits(), "long read short",
    ),
    "a window of a listener about to run dry before a first sound": (
        [LATER_WINDOW, WINDOW, NEW], StepLimits(positions=410), "window",
    ),
    "and no other window": ([LATER_WINDOW, NEW], StepLimits(positions=410), "new"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_who_steps_next(name: str) -> None:
    candidates, limits, wanted = ORDERS[name]
    assert " ".join(keys(online(candidates, limits))) == wanted


def test_offline_fills_the_batch_in_order_of_arrival() -> None:
    candidates = [steady("b", 0.0, arrived_s=2.0), steady("a", 50.0, arrived_s=1.0)]
    assert keys(offline(candidates, StepLimits())) == ["a", "b"]


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


@pytest.mark.parametrize(
    ("streams", "rounds"), [(0, 8), (1, 8), (3, 8), (4, 6), (6, 4), (12, 2), (99, 1)]
)
def test_a_launch_of_many_streams_has_fewer_rounds(streams: int, rounds: int) -> None:
    assert StepLimits(together=6).rounds(streams, 8) == rounds


SHARED = StepLimits(company=4, together=3, together_slack_s=1.0, together_pace=2.0)
RATE_HZ = 20.0
FRAME_S = 1 / RATE_HZ / SHARED.together_pace


@dataclass(eq=False)
class Listened:
    slack_s: float
    offline: bool = False


def listened(*slacks_s: float) -> list[Listened]:
    return [Listened(slack_s) for slack_s in slacks_s]


def stepped(company: Company, open_: list[Listened], frames: int, now: float) -> list[Listened]:
    chosen = company.ready(open_, open_, now)
    company.stepped(chosen, frames * len(chosen), now)
    return chosen


def test_the_well_supplied_rest_behind_a_step_and_the_others_do_not() -> None:
    company, some = Company(SHARED, RATE_HZ), listened(0.2, 1.0, 2.0, 3.0)
    assert stepped(company, some, 2, now=0.0) == some
    assert company.ready(some, some, 1.9 * FRAME_S) == some[:1]
    assert company.heard(some, 1.9 * FRAME_S) == 1
    assert company.ready(some, some, 2.0 * FRAME_S) == some
    assert company.heard(some, 2.0 * FRAME_S) == 4


def test_an_idle_engine_waits_no_longer_than_they_rest() -> None:
    company = Company(SHARED, RATE_HZ)
    stepped(company, listened(1.0, 2.0, 3.0, 4.0), 2, now=0.0)
    rest_s = 2 * FRAME_S * 3 / 4  # three of the four shared the step
    assert company.wait_s(0.0, 0.5) == pytest.approx(rest_s)
    assert company.wait_s(0.0, 0.01) == 0.01
    assert company.wait_s(rest_s, 0.5) == 0.5


def test_so_many_share_a_step_those_with_the_least_first_and_all_are_made_at_one_pace() -> None:
    company, some = Company(SHARED, RATE_HZ), listened(*(1.0 + n for n in range(6)))
    backwards = some[::-1]
    assert set(company.ready(backwards, backwards, 0.0)) == set(some[:3])
    company.stepped(some[:3], 3, 0.0)
    assert company.ready(some, some, FRAME_S / 2 * 0.99) == []
    assert company.ready(some, some, FRAME_S / 2) == some[:3]


@pytest.mark.parametrize("company", [0, 5])
def test_without_company_nothing_waits(company: int) -> None:
    limits = StepLimits(company=company, together=3)
    alone, some = Company(limits, RATE_HZ), listened(1.0, 2.0, 3.0, 4.0)
    for now in (0.0, FRAME_S / 2):
        assert stepped(alone, some, 2, now) == some
    assert (alone.heard(some, 0.0), alone.wait_s(0.0, 0.5)) == (4, 0.5)


def test_the_other_stage_has_the_processor_behind_a_listener_s_first_codes() -> None:
    company, some = Company(SHARED, RATE_HZ), listened(0.0, 0.19, 0.2, 1e6)
    company.began(0.0)
    assert company.ready(some, some, 0.0099) == some[:2]
    assert company.wait_s(0.0, 0.5) == 0.01
    assert company.ready(some, some, 0.01) == some
    assert company.wait_s(0.01, 0.5) == 0.5
    alone = Company(StepLimits(company=0), RATE_HZ)
    alone.began(0.0)
    assert alone.ready(some, some, 0.0) == some


def test_a_listener_counts_until_what_was_made_is_heard() -> None:
    company, some = Company(SHARED, RATE_HZ), listened(1.0, 2.0, 3.0)
    assert stepped(company, some, 2, 0.0) == some
    assert company.ready(some, some, 0.001) == some
    company.finished(Listened(1.0), 1.0, 0.0)
    stepped(company, some, 20, 0.002)
    assert company.ready(some, some, 0.003) == []
    assert company.ready(some, some, 1.0) == some


def test_beside_jobs_nothing_waits() -> None:
    company, some = Company(SHARED, RATE_HZ), listened(1.0, 2.0, 3.0, 4.0)
    job = Listened(1e6, offline=True)
    for now in itertools.islice(itertools.count(0.0, 0.001), 3):
        assert stepped(company, [*some, job], 2, now) == [*some, job]
    assert company.heard([*some, job], 0.003) == 4
