"""A talker's launches in virtual time take what was measured, and gain as many frames."""

from itertools import repeat
from statistics import fmean

import msgspec
import pytest

from antiphon_bench.plan.models import PlannedModel, PlannedRunner, PlannedStream
from talker.calibrate import calibrate
from tests.unit.antiphon_bench.plan.scene import CURVES
from ttsfamilies.base.talker.streams import Plan, Row
from ttsfamilies.fake.talker import Drafted, StepCurve

CURVE = StepCurve(
    step_s={1: 0.010, 8: 0.017},
    prefill_s=0.005,
    drafts={1: Drafted({1: 0.010, 8: 0.017}), 4: Drafted({1: 0.012, 8: 0.040}, 2.5)},
    turn_s={1: 0.001},
)
PROMPT, STEP, WIDE = Plan(0, 7), Plan(1, 1, decode=True), Plan(1, 4, decode=True)
FAR = STEP.widened(4, 1 << 20, rounds=3)


def _nothing(seconds: float) -> None:
    del seconds


def row(plan: Plan, frames: int = 1000) -> Row:
    stream = PlannedStream()
    stream.feed((frames,), final=True)
    return Row(stream, 0, plan, ())


def took_s(*plans: Plan) -> float:
    """Of one launch."""
    slept: list[float] = []
    PlannedRunner(CURVE, slept.append, slept.append).launch([row(plan) for plan in plans])
    return sum(slept)


@pytest.mark.parametrize(
    ("plans", "seconds"),
    [
        ([STEP], 0.010),
        ([STEP] * 8, 0.017),
        ([WIDE], 0.012),
        ([WIDE] * 8, 0.040),
        ([PROMPT], 0.010 + 0.005),
        ([PROMPT, *[STEP] * 7], 0.017 + 0.005),
        ([FAR] * 8, 3 * 0.040),
    ],
)
def test_a_launch_takes_as_long_as_its_rounds_and_its_prompts(
    plans: list[Plan], seconds: float
) -> None:
    assert took_s(*plans) == pytest.approx(seconds + 0.001)


def test_wide_steps_gain_as_many_frames_as_were_measured() -> None:
    runner = PlannedRunner(CURVE, _nothing, _nothing)
    gained = [runner.launch([row(WIDE)]).gained[0] for _ in repeat(None, 4000)]
    assert fmean(gained) == pytest.approx(2.5, rel=0.03)
    assert set(gained) == {1, 2, 3, 4}
    rounds = [runner.launch([row(FAR)]).gained[0] for _ in repeat(None, 1500)]
    assert fmean(rounds) == pytest.approx(3 * 2.5, rel=0.03)
    assert set(rounds) == set(range(3, 13))


@pytest.mark.parametrize("step", [WIDE, FAR])
def test_no_step_gains_more_than_is_left_to_say(step: Plan) -> None:
    runner = PlannedRunner(CURVE, _nothing, _nothing)
    assert {runner.launch([row(step, frames=2)]).gained[0] for _ in range(50)} <= {1, 2}


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_stream_that_drafts_says_all_of_its_frames_and_no_more(rounds: int) -> None:
    stream, runner = PlannedStream(), PlannedRunner(CURVE, _nothing, _nothing)
    stream.feed((37,), final=True)
    while (plan := stream.plan(0)) is not None:
        wide = plan.widened(4, 1 << 20, rounds) if plan.decode else plan
        results = runner.launch([Row(stream, 0, wide, ())])
        stream.accept(results.kept[0], results.row(0), ended=False)
    assert (stream.frames, stream.left, stream.done) == (37, 0, True)


def test_what_calibration_measures_of_rounds_is_what_each_takes() -> None:
    """Few streams make several rounds in a launch, and many make one."""
    now = 0.0

    def pass_(seconds: float) -> None:
        nonlocal now
        now += seconds

    drafts = {**CURVE.drafts, 2: Drafted({1: 0.011, 8: 0.025}, 1.7)}
    curve = msgspec.structs.replace(CURVE, drafts=drafts, rounds=8)
    model = PlannedModel(msgspec.structs.replace(CURVES, talker=curve), pass_, pass_)
    found = calibrate(model, 0, (1, 8), 1, lambda: now)
    assert found.rounds == 8
    assert found.drafts.keys() == {1, 2, 4}
    for width in (1, 4):
        for streams, took_s in curve.drafts[width].step_s.items():
            assert found.drafts[width].step_s[streams] == pytest.approx(took_s, abs=3e-3)
    assert found.drafts[4].gained == pytest.approx(2.5, rel=0.2)
