"""The comparison of policies: the same every time, and read off correctly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from antiphon_bench.policies import (
    SATURATING,
    Load,
    Point,
    Talker,
    compare,
    measure,
    rate_at,
    table,
    talker_of,
    write,
)
from talker.engine.scheduler import PolicyName, StepLimits

SHORT = Load(rate=2.0, warmup_s=2.0, duration_s=10.0, texts="short")


def simulated(policy: PolicyName, load: Load = SHORT) -> Point:
    return measure(Talker(limits=StepLimits(streams=8)), policy, [load])


def point(policy: str, rate: float, p90_s: float, viable: float = 1.0) -> Point:
    return Point(
        policy=policy,
        rate=rate,
        requests=100,
        ttfp_p50_s=p90_s / 2,
        ttfp_p90_s=p90_s,
        ttfp_p99_s=2 * p90_s,
        viable_chunk_share=viable,
        viable_stream_share=viable,
        underrun_s=0.0,
        busy_share=0.5,
    )


def test_a_simulation_depends_on_nothing_but_its_seed() -> None:
    assert simulated("online") == simulated("online")
    assert simulated("online") != simulated("online", dataclasses.replace(SHORT, seed=1))


def test_a_request_alone_hears_its_first_chunk_after_the_steps_it_takes() -> None:
    found = simulated("online", dataclasses.replace(SHORT, rate=0.2, duration_s=60.0))
    # A prefill that gives the first frame, then one decode step.
    alone_s = SATURATING.seconds(1, 1) + SATURATING.seconds(1, 0)
    assert found.ttfp_p50_s == pytest.approx(alone_s)
    assert found.viable_stream_share == 1.0


def test_policies_hear_the_same_requests() -> None:
    assert simulated("online").requests == simulated("first_come").requests


def test_seeds_are_counted_together() -> None:
    loads = [dataclasses.replace(SHORT, seed=seed) for seed in (1, 2)]
    together = measure(Talker(limits=StepLimits(streams=8)), "online", loads)
    assert together.requests == sum(simulated("online", load).requests for load in loads)


def test_bursts_have_the_same_rate_and_longer_waits() -> None:
    bursty = dataclasses.replace(SHORT, cv=4.0, duration_s=200.0, rate=1.0)
    calm = dataclasses.replace(bursty, cv=1.0)
    assert len(bursty.jobs()) == pytest.approx(len(calm.jobs()), rel=0.35)
    found = {load.cv: simulated("first_come", load).ttfp_p90_s for load in (calm, bursty)}
    assert found[4.0] > found[1.0]


def test_slack_scheduling_is_no_worse_than_taking_turns_and_starts_sooner() -> None:
    load = dataclasses.replace(SHORT, rate=8.0, duration_s=30.0)
    ours, turns = simulated("online", load), simulated("round_robin", load)
    assert ours.ttfp_p90_s < turns.ttfp_p90_s
    assert ours.viable_chunk_share >= turns.viable_chunk_share


def test_every_policy_is_compared_at_every_rate() -> None:
    points = compare(Talker(), [0.05, 0.1], ("online", "first_come"))
    assert [(p.policy, p.rate) for p in points] == [
        ("online", 0.05),
        ("online", 0.1),
        ("first_come", 0.05),
        ("first_come", 0.1),
    ]


def test_a_rate_lies_between_the_points_in_proportion() -> None:
    points = [point("a", 1.0, 0.02), point("a", 2.0, 0.04), point("a", 3.0, 0.08)]
    assert rate_at(points, "a", 0.06) == pytest.approx(2.5)
    assert rate_at(points, "a", 0.5) == 3.0
    assert rate_at(points, "a", 0.01) == 0.0


def test_a_rate_at_which_listeners_hear_gaps_does_not_count() -> None:
    points = [point("a", 1.0, 0.02), point("a", 2.0, 0.03, viable=0.9)]
    assert rate_at(points, "a", 0.1) == 1.0


def test_the_table_has_every_target_and_ratio() -> None:
    points = [point("online", 2.0, 0.02), point("first_come", 1.0, 0.02)]
    assert table(points, [0.1]).splitlines() == [
        "| p90 TTFP | `online` | `first_come` | `online` / `first_come` |",
        "| --- | --- | --- | --- |",
        "| 100 ms | 2.00 | 1.00 | 2.0 |",
    ]


def test_figures_are_written_for_light_and_dark_pages(tmp_path: Path) -> None:
    curve = tmp_path / "talker.json"
    curve.write_bytes(msgspec.json.encode(SATURATING))
    assert talker_of(curve, 8).curve == SATURATING
    write([point("online", 1.0, 0.02), point("first_come", 1.0, 0.03)], "title", tmp_path)
    assert {p.name for p in tmp_path.glob("policies-*.svg")} == {
        "policies-light.svg",
        "policies-dark.svg",
    }
