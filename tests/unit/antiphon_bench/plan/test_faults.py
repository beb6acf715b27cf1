"""Losses: what was being said is said to its end, once."""

from __future__ import annotations

import pytest

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.calls import OUTCOMES, Heard, OpenLoop
from antiphon_bench.plan.faults import KINDS, Event, Faults
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.shapes import Shape
from tests.unit.antiphon_bench.plan.scene import every, setup
from tests.unit.antiphon_bench.plan.test_fleet import assert_idle

WHOLE = Shape(2, 3, 3, brokers=3, nodes=3, cores=4.0)


def disturbed(*events: str, shape: Shape = WHOLE) -> tuple[Fleet, Heard, dict[str, int]]:
    fleet = Fleet(setup(shape))
    faults = Faults(fleet, 1)
    faults.schedule([Event.parse(event) for event in events], 30.0)
    heard = fleet.run(OpenLoop(every(0.5, 36)), 300.0)
    return fleet, heard, faults.lost


@pytest.mark.parametrize("what", KINDS)
def test_whatever_is_lost_every_stream_is_heard_whole_and_nothing_is_left(what: str) -> None:
    fleet, heard, lost = disturbed(f"{what}@5.1/6")
    assert {OUTCOMES[number] for number in heard.outcomes} == {"ok"}
    assert list(heard.sound_s) == pytest.approx([4.0] * 36)
    assert lost
    assert_idle(fleet)
    assert len(list(fleet.talkers)) == WHOLE.talkers
    assert sum(gateway.alive for gateway in fleet.gateways) == WHOLE.gateways


def test_the_only_broker_is_away_until_it_has_started_again() -> None:
    _, quiet, _ = disturbed(shape=Shape(1, 2, 2))
    _, heard, _ = disturbed("broker@5.45", shape=Shape(1, 2, 2))
    # Half a second to start and a quarter to connect again; the next request comes at 5.5.
    assert max(heard.ttfp_s) - max(quiet.ttfp_s) == pytest.approx(0.7, abs=0.1)


def test_the_only_talker_is_waited_for_until_another_has_started() -> None:
    _, heard, lost = disturbed("talker@5.1", shape=Shape(1, 1, 2))
    assert lost == {"talker": 1}
    assert OUTCOMES[1] in {OUTCOMES[number] for number in heard.outcomes}  # no live talker
    assert max(heard.longest_s) > 0.5


def test_a_start_takes_a_core_and_gives_it_back() -> None:
    fleet = Fleet(setup(Shape(1, 1, 2, nodes=1, cores=2.0)))
    [node] = fleet.nodes
    Faults(fleet, 0).schedule([Event("vocoder", 1.0)], 2.0)
    fleet.kernel.run(1.5)
    assert node.computing == 1
    fleet.kernel.run(60.0)
    assert node.computing == 0
    assert len(list(fleet.vocoders)) == 2


def test_an_event_says_what_when_and_how_often() -> None:
    assert Event.parse("node@60") == Event("node", 60.0)
    assert Event.parse("talker@30/60") == Event("talker", 30.0, 60.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("disk@3", "nothing is called 'disk'"),
        ("talker", "is not WHAT@SECONDS"),
        ("talker@soon", "is not WHAT@SECONDS"),
        ("talker@-1", "counted from the beginning"),
        ("talker@nan", "counted from the beginning"),
    ],
)
def test_an_event_that_cannot_happen_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        Event.parse(text)
