"""The smallest fleet: one process less of any kind misses a target."""

from dataclasses import replace

import pytest

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.costs import Shape
from antiphon_bench.plan.loads import Demand
from antiphon_bench.plan.search import Question, Target, gives_way, smallest
from tests.unit.antiphon_bench.plan.scene import SLOW, setup

DEMAND = Demand(4.0, "medium", length_s=12.0, warmup_s=4.0)


@pytest.fixture(scope="module")
def question() -> Question:
    return Question(setup(curves=SLOW), DEMAND, Target(0.4, 0.95, 0.05))


@pytest.fixture(scope="module")
def found(question: Question) -> Shape:
    shape = smallest(question)
    assert question.tried(shape)
    return shape


@pytest.mark.slow
def test_one_process_less_is_too_few(question: Question, found: Shape) -> None:
    assert found.talkers > 1
    for kind in ("gateways", "talkers", "vocoders"):
        if (number := getattr(found, kind)) > 1:
            assert not question.tried(replace(found, **{kind: number - 1}))


@pytest.mark.slow
def test_what_gives_way_first_is_what_more_of_would_cure(question: Question, found: Shape) -> None:
    tight = replace(found, vocoders=4 * found.vocoders, gateways=4 * found.gateways)
    broke = gives_way(question, tight)
    assert broke.scale is not None
    assert broke.scale > 1.0
    assert broke.relief == ["talkers"]
    assert broke.misses


def test_targets_that_nothing_can_meet_are_said_to_be_so(question: Question) -> None:
    hopeless = replace(question, target=Target(0.005), most=4, known={})
    with pytest.raises(PlanError, match="not even 4 talkers are enough: p95 of the first sound"):
        smallest(hopeless)


def test_a_fleet_is_simulated_once(question: Question) -> None:
    assert question.asked(Shape()) is question.asked(Shape())
