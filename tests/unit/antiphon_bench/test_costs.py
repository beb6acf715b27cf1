"""What a stack takes is divided among requests, sound, refusals, reading, and engines' curves."""

from collections.abc import Mapping

import pytest

from antiphon_bench.costs import READING, Ran, Work, edges, refusal_s, slower, without_engines
from antiphon_bench.plan.costs import Edge
from tests.unit.antiphon_bench.made import result
from tests.unit.antiphon_bench.plan.scene import CURVES

# A text of 100 characters is 100 frames, 4 s: a prompt and 100 steps of one stream.
TALKER_S = (100 * CURVES.talker.seconds(1, 0) + CURVES.talker.prefill_s) / 4.0


def ran(spent: Mapping[str, float], sound_s: float, others: float = 0.0) -> Ran:
    """One user heard texts of 100 characters for five seconds."""
    text = result(text="a" * 100, e2e_s=0.0, audio_s=sound_s)
    return Ran(1, 5.0, [text], spent, 5.0, others)


def test_engines_that_took_twice_as_much_have_the_factor_two() -> None:
    spent = {"talker/7": 2.0 * TALKER_S * 8.0, "talker/8": 0.001, "vocoder/9": 0.4}
    load = ran(spent, 8.0)
    found = slower(CURVES, load, load, 2)["talker"]
    assert found.alone == pytest.approx(2.0, rel=0.03)
    assert found.crowded == pytest.approx(2.0, rel=0.2)


def test_beside_other_programs_nothing_is_said_of_engines() -> None:
    spent = {"talker/7": 2.0 * TALKER_S * 8.0, "vocoder/9": 0.4}
    assert slower(CURVES, ran(spent, 8.0), ran(spent, 8.0, 1.2), 2) == {}


def test_of_an_engines_process_the_busiest_thread_is_the_engine() -> None:
    spent = {"talker/7": 2.0, "talker/8": 0.5, "vocoder/9": 3.0, "vocoder/10": 0.1}
    assert ran(spent, 10.0).cost_s == {"talker": 0.2, "vocoder": 0.3}


def test_a_talkers_other_threads_read() -> None:
    spent = {"talker": 0.1, "talker/7": 2.0, "talker/8": 0.25, "talker/9": 0.25, "vocoder/9": 3.0}
    assert without_engines(spent) == {"talker": 0.1, READING: 0.5}


def test_processor_time_is_divided_between_requests_and_sound() -> None:
    short, long = Work(100, 200.0, {"gateway": 0.6}), Work(20, 300.0, {"gateway": 0.4})
    found = edges([short, long])["gateway"]
    for work in (short, long):
        spent_s = work.requests * found.request_s + work.sound_s * found.sound_s
        assert spent_s == pytest.approx(work.spent_s["gateway"], rel=0.01)


def test_a_refusal_costs_what_the_served_did_not() -> None:
    edge = Edge(0.004, 0.001)
    crowd = Work(10, 50.0, {"gateway": 0.09 + 100 * 0.003}, refused=100)
    assert refusal_s(crowd, "gateway", edge) == pytest.approx(0.003)
    assert refusal_s(Work(10, 50.0, {"gateway": 0.1}, refused=3), "gateway", edge) is None


def test_no_cost_is_negative() -> None:
    found = edges([Work(100, 200.0, {"broker": 0.1}), Work(10, 300.0, {"broker": 0.2})])["broker"]
    assert found.request_s == 0.0
    assert 0.0005 <= found.sound_s <= 0.00067
