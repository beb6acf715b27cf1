"""Streams that wait for one another, by themselves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from talker.engine.company import Company
from talker.engine.scheduler import StepLimits

LIMITS = StepLimits(company=4, together=3, together_slack_s=1.0, together_pace=2.0)
RATE_HZ = 20.0
FRAME_S = 1 / RATE_HZ / LIMITS.together_pace


@dataclass(eq=False)
class Listened:
    slack_s: float
    offline: bool = False


def streams(*slacks_s: float) -> list[Listened]:
    return [Listened(slack_s) for slack_s in slacks_s]


def stepped(company: Company, open_: list[Listened], frames: int, now: float) -> list[Listened]:
    chosen = company.ready(open_, open_, now)
    company.stepped(chosen, frames * len(chosen), now)
    return chosen


def test_the_well_supplied_rest_behind_a_step_and_the_others_do_not() -> None:
    company, some = Company(LIMITS, RATE_HZ), streams(0.2, 1.0, 2.0, 3.0)
    assert stepped(company, some, 2, now=0.0) == some
    assert company.ready(some, some, 1.9 * FRAME_S) == some[:1]
    assert company.heard(some, 1.9 * FRAME_S) == 1
    assert company.ready(some, some, 2.0 * FRAME_S) == some
    assert company.heard(some, 2.0 * FRAME_S) == 4


def test_an_idle_engine_waits_no_longer_than_they_rest() -> None:
    company = Company(LIMITS, RATE_HZ)
    stepped(company, streams(1.0, 2.0, 3.0, 4.0), 2, now=0.0)
    rest_s = 2 * FRAME_S * 3 / 4  # three of the four shared the step
    assert company.wait_s(0.0, 0.5) == pytest.approx(rest_s)
    assert company.wait_s(0.0, 0.01) == 0.01
    assert company.wait_s(rest_s, 0.5) == 0.5


def test_so_many_share_a_step_those_with_the_least_first_and_all_are_made_at_one_pace() -> None:
    company, some = Company(LIMITS, RATE_HZ), streams(*(1.0 + n for n in range(6)))
    backwards = some[::-1]
    assert set(company.ready(backwards, backwards, 0.0)) == set(some[:3])
    company.stepped(some[:3], 3, 0.0)
    assert company.ready(some, some, FRAME_S / 2 * 0.99) == []
    assert company.ready(some, some, FRAME_S / 2) == some[:3]


@pytest.mark.parametrize("company", [0, 5])
def test_without_company_nothing_waits(company: int) -> None:
    limits = StepLimits(company=company, together=3)
    alone, some = Company(limits, RATE_HZ), streams(1.0, 2.0, 3.0, 4.0)
    for now in (0.0, FRAME_S / 2):
        assert stepped(alone, some, 2, now) == some
    assert (alone.heard(some, 0.0), alone.wait_s(0.0, 0.5)) == (4, 0.5)


def test_a_listener_counts_until_what_was_made_is_heard() -> None:
    company, some = Company(LIMITS, RATE_HZ), streams(1.0, 2.0, 3.0)
    assert stepped(company, some, 2, 0.0) == some
    assert company.ready(some, some, 0.001) == some
    company.finished(Listened(1.0), 1.0, 0.0)
    stepped(company, some, 20, 0.002)
    assert company.ready(some, some, 0.003) == []
    assert company.ready(some, some, 1.0) == some


def test_beside_jobs_nothing_waits() -> None:
    company, some = Company(LIMITS, RATE_HZ), streams(1.0, 2.0, 3.0, 4.0)
    job = Listened(1e6, offline=True)
    for now in itertools.islice(itertools.count(0.0, 0.001), 3):
        assert stepped(company, [*some, job], 2, now) == [*some, job]
    assert company.heard([*some, job], 0.003) == 4
