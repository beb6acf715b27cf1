"""A deployment in virtual time: nothing is lost, and what is known comes out."""

from dataclasses import replace
from itertools import cycle, pairwise
from typing import Any

import msgspec
import pytest

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.costs import Edge, Setup, Shape, Slower
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.gateways import Heard
from antiphon_bench.plan.loads import ClosedLoop, Demand, OpenLoop, Wanted
from antiphon_bench.plan.models import PlannedStream
from antiphon_bench.plan.search import simulate
from antiphon_bench.results import Outcome
from talker.engine.scheduler import StepLimits
from tests.unit.antiphon_bench.plan.scene import COSTS, CURVES, SLOW, every, lose_a_talker, setup
from ttsfamilies.fake.talker import Drafted

FIGURES = (0.033450054834334164, 0.043672749643822284, 13.422857142857142, 0.49103028984531866)


def run(fleet: Fleet, *, requests: int = 40, every_s: float = 0.1) -> list[Heard]:
    return fleet.run(OpenLoop(every(every_s, requests)), 300.0)


def outcomes(heard: list[Heard]) -> list[str]:
    return [one.outcome for one in heard]


def sound_s(heard: list[Heard]) -> list[float]:
    return [one.account.duration_s for one in heard]


def first_s(heard: list[Heard]) -> list[float]:
    """Of those that were heard."""
    return [one.ttfp_s for one in heard if one.ttfp_s is not None]


def underruns(heard: list[Heard]) -> int:
    return sum(one.account.underruns for one in heard)


def assert_idle(fleet: Fleet) -> None:
    """Nothing is held: no call, no job, no slot, no place at a gateway."""
    assert not fleet.calls
    assert not fleet.talkers.waiting
    assert not fleet.vocoders.waiting
    for worker in [*fleet.talkers, *fleet.vocoders]:
        assert worker.used == 0
        assert worker.engine.idle
    assert not any(gateway.streams for gateway in fleet.gateways)


def test_a_talker_is_lost_and_every_stream_is_heard_whole_and_nothing_is_left() -> None:
    fleet = Fleet(setup(Shape(2, 3, 3, brokers=3, nodes=3, cores=4.0)))
    for at_s in (5.1, 11.1, 17.1):
        fleet.kernel.at(at_s, lambda: lose_a_talker(fleet, len(fleet.talkers.workers) - 1))
    heard = fleet.run(OpenLoop(every(0.5, 36)), 300.0)
    assert outcomes(heard) == ["ok"] * 36
    assert sound_s(heard) == pytest.approx([4.0] * 36)
    assert_idle(fleet)
    assert len(list(fleet.talkers)) == 3


def test_the_only_talker_is_waited_for_until_another_has_started() -> None:
    fleet = Fleet(setup(Shape(1, 1, 2)))
    fleet.kernel.at(5.1, lambda: lose_a_talker(fleet))
    heard = fleet.run(OpenLoop(every(0.5, 36)), 300.0)
    assert "refused" in outcomes(heard)  # no live talker
    assert max(one.account.longest_underrun_s for one in heard) > 0.5


def test_an_engine_that_fails_ends_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no units")

    monkeypatch.setattr(PlannedStream, "feed", fail)
    with pytest.raises(PlanError, match="a talker failed: no units"):
        run(Fleet(setup()), requests=1)


def test_a_request_alone_waits_for_the_sum_of_what_is_on_its_way() -> None:
    heard = run(Fleet(setup()), requests=1)
    curves, costs = CURVES, COSTS
    # A prefill that gives the first frame, then two steps: a first chunk of 3 frames, 0.12 s.
    talker_s = curves.talker.seconds(1, 1) + 2 * curves.talker.seconds(1, 0)
    vocoder_s = curves.vocoder.step_s(1, 3)
    edges_s = (costs.gateway.request_s + costs.broker.request_s + costs.talker.request_s) / 2
    sound_s = 0.12 * sum(
        edge.sound_s for edge in (costs.talker, costs.broker, costs.vocoder, costs.gateway)
    )
    way_s = 5 * costs.hop_s + costs.read_s + edges_s + sound_s
    assert first_s(heard)[0] == pytest.approx(talker_s + vocoder_s + way_s, abs=1e-4)


def test_the_figures_of_a_small_plan_are_as_ever() -> None:
    """Whatever makes the simulation faster, it says the same."""
    drafts = {
        width: Drafted({1: 0.004 * width**0.5, 8: 0.012 * width**0.5}, gained)
        for width, gained in ((1, 1.0), (2, 1.7), (4, 2.4))
    }
    talker = msgspec.structs.replace(CURVES.talker, drafts=drafts, turn_s={1: 0.0005, 8: 0.001})
    curves = msgspec.structs.replace(CURVES, talker=talker)
    demand = Demand(4.0, "medium", length_s=8.0, warmup_s=1.0)
    found = simulate(setup(Shape(2, 2, 2), curves=curves), demand)
    figures = (found.ttfp_p50_s, found.ttfp_p95_s, found.sound_s_per_s, found.busy["talker"])
    assert figures == pytest.approx(FIGURES, rel=1e-6)


def test_more_than_the_engines_keep_up_with_is_refused_and_the_rest_is_served_well() -> None:
    fleet = Fleet(setup(curves=SLOW))
    heard = run(fleet, requests=60, every_s=0.1)
    found = outcomes(heard)
    assert found.count("refused") > 40
    assert found.count("ok") == 60 - found.count("refused")
    assert not underruns(heard)
    assert_idle(fleet)


class Patient(OpenLoop):
    """Clients who note when they are told to ask again."""

    def __init__(self, requests: int) -> None:
        super().__init__(every(0.01, requests))
        self.retried_s: list[float] = []

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        if outcome == "refused":
            self.retried_s.append(heard_s + retry_s)
        return super().next(wanted, heard_s, outcome, retry_s)


def test_the_refused_are_told_to_come_one_after_another() -> None:
    load = Patient(30)
    Fleet(setup(curves=SLOW)).run(load, 300.0)
    assert len(load.retried_s) > 20
    # All of them in a moment; what is in their way ends at several.
    assert max(load.retried_s) - min(load.retried_s) > 2.5


def test_refusals_that_cost_more_make_first_sounds_later() -> None:
    one = setup(Shape(nodes=1, cores=1.0), curves=SLOW)
    edge = Edge(0.004, 0.0004, refused_s=0.05)
    costs = msgspec.structs.replace(SLOW.costs, gateway=edge)
    dear = replace(one, curves=msgspec.structs.replace(SLOW, costs=costs))
    worked = []
    for each in (one, dear):
        fleet = Fleet(each)
        run(fleet, requests=60)
        worked.append(fleet.gateways[0].edge.worked_s)
    assert worked[1] > worked[0] + 0.5


def test_without_admission_the_same_load_waits_and_hears_gaps() -> None:
    closed, open_door = (
        run(Fleet(setup(curves=SLOW, admission=admission)), requests=40, every_s=0.1)
        for admission in ("on", "off")
    )
    assert max(first_s(open_door)) > 2 * max(first_s(closed))
    assert underruns(open_door) > 10


@pytest.mark.parametrize("computes", [True, False])
def test_with_company_streams_in_hand_wait_for_one_another_where_engines_compute(
    computes: bool,
) -> None:
    costs = msgspec.structs.replace(COSTS, computes=computes)
    fleet = Fleet(setup(curves=msgspec.structs.replace(CURVES, costs=costs)))
    (talker,), stepped_s = fleet.talkers, list[float]()
    talker.engine.on_step = lambda took_s, keys: stepped_s.append(fleet.kernel.now)
    heard = run(fleet, requests=4)
    assert outcomes(heard) == ["ok"] * 4
    assert not underruns(heard)
    assert_idle(fleet)
    rest_s = 1 / COSTS.speech.frame_rate_hz / StepLimits.together_pace
    assert (max(b - a for a, b in pairwise(stepped_s)) == pytest.approx(rest_s)) == computes


def test_requests_beyond_the_slots_wait_for_one() -> None:
    fleet = Fleet(setup(admission="off", slots=1))
    heard = run(fleet, requests=5, every_s=0.0)
    assert outcomes(heard) == ["ok"] * 5
    waits = sorted(first_s(heard))
    assert all(later > sooner + 0.1 for sooner, later in pairwise(waits))
    assert fleet.talkers.most_waiting == 4


def test_a_job_goes_to_the_worker_with_the_most_room() -> None:
    fleet = Fleet(setup(Shape(1, 4, 4)))
    run(fleet, requests=4, every_s=0.001)
    assert all(worker.busy_s > 0.0 for worker in fleet.talkers)


def test_users_of_a_closed_loop_ask_when_they_have_heard_all() -> None:
    fleet = Fleet(setup())
    heard = fleet.run(ClosedLoop(2, cycle([100]), 15.0, 1.0), 60.0)
    # Four seconds of sound and a short wait, again and again.
    assert len(heard) == 2 * 4
    assert_idle(fleet)


def crowded(setup: Setup) -> float:
    """Seconds that all first sounds took together, of one request after another."""
    heard = run(Fleet(setup), requests=16, every_s=0.4)
    assert outcomes(heard) == ["ok"] * 16
    return sum(first_s(heard))


def test_on_a_shared_machine_first_sounds_come_later() -> None:
    own, shared = setup(admission="off"), setup(Shape(nodes=1, cores=1.0), admission="off")
    assert crowded(shared) > 1.1 * crowded(own)
    beside = setup(Shape(nodes=1, cores=1.0, beside=0.5), admission="off")
    assert crowded(beside) > 1.1 * crowded(shared)


@pytest.mark.parametrize(
    ("cores", "changed", "longer"),
    [
        (2.0, {"slower": dict.fromkeys(("talker", "vocoder"), Slower(1.0, 2.0))}, 1.1),
        (1.0, {"reading": Edge(0.1, 0.0)}, 1.1),  # it takes the machine from engines
        (1.0, {"computes": False}, 0.99),  # a device is not slowed by other engines
    ],
)
def test_what_engines_share_their_machine_with_moves_first_sounds(
    cores: float, changed: dict[str, Any], longer: float
) -> None:
    one = setup(Shape(nodes=1, cores=cores), admission="off")
    costs = msgspec.structs.replace(COSTS, **changed)
    other = replace(one, curves=msgspec.structs.replace(CURVES, costs=costs))
    assert (crowded(other) > longer * crowded(one)) == (longer > 1.0)
