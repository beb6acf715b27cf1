"""Jobs and listeners beside listeners in the engine's steps, on a clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from talker.engine.draft_lengths import DraftLengths
from talker.engine.scheduler import StepLimits
from talker.engine.stream import Event
from tests.turning import turn
from tests.unit.talker.engine.test_engine import Driven, expected
from ttscommon.engine.slots import OfflineTuning
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.talker.streams import Taken
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve

TUNING, LIMITS = OfflineTuning(), StepLimits(company=4)
# A step of all jobs takes 28 ms, one of 3 fits into 10.
CURVE = StepCurve(0.004, 0.002, 0.002)
JOBS = 12
JOB_LETTERS, LETTERS = 200, 60
SEED = 5


class Turned(Driven):
    """An engine that is turned by hand, with jobs in all slots but two, or with none."""

    def __init__(self, jobs: int = JOBS, curve: StepCurve = CURVE, depth: int = 0) -> None:
        self.now = 0.0
        self.steps: list[tuple[float, float, Sequence[str]]] = []
        self.first_s: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        model = FakeModel("m", curve, self.sleep, Manner(cached=True), lambda: self.now)
        how = {"slots": JOBS + 2, "blocks": 1000, "depth": depth, "limits": LIMITS}
        super().__init__(model, clock=lambda: self.now, **how)
        self.engine.on_step = lambda took_s, keys: self.steps.append((self.now, took_s, keys))
        for n in range(jobs):
            self.speak(f"job{n}", JOB_LETTERS, OFFLINE)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def speak(self, name: str, letters: int, priority: int = 5) -> None:
        self.open(name, "a" * letters, seed=SEED, priority=priority)

    def until(self, holds: Callable[[], bool], most: int = 20_000) -> None:
        for _ in range(most):
            if holds():
                return
            turn(self.engine)
            self.now += 0.0005
        raise AssertionError("it did not come to that")

    def run_for(self, seconds: float) -> list[tuple[float, Sequence[str]]]:
        """Steps of so many seconds: what each took, and of which streams it was."""
        begun, end = len(self.steps), self.now + seconds
        self.until(lambda: self.now >= end)
        return [(took_s, keys) for _, took_s, keys in self.steps[begun:]]

    def hear(self, events: Sequence[tuple[str, Event]]) -> None:
        super().hear(events)
        for key, event in events:
            heard = self.first_s if isinstance(event, Taken) else self.ended
            heard.setdefault(key, self.now)


def jobs_in(keys: Sequence[str]) -> int:
    return sum(key.startswith("job") for key in keys)


def test_no_job_is_beside_a_listener_before_enough_is_in_hand() -> None:
    turned = Turned()
    turned.run_for(0.1)
    turned.speak("heard", 400)
    begun = len(turned.steps)
    turned.until(lambda: jobs_in(turned.steps[-1][2]) > 0 and len(turned.steps) > begun + 1)
    before = [keys for _, _, keys in turned.steps[begun:-1]]
    assert all(keys == ["heard"] for keys in before)
    played_s = turned.now - turned.first_s["heard"]
    sent_s = len(turned.codes("heard")) / 25.0
    assert sent_s - played_s >= TUNING.slack_s


def test_steps_with_jobs_are_short_while_a_listener_is_expected_and_full_again_later() -> None:
    turned = Turned()
    turned.run_for(0.1)
    turned.speak("heard", LETTERS)
    turned.until(lambda: "heard" in turned.ended)
    turned.engine.step()
    begun_s, short = turned.now, turned.run_for(2.0)
    assert all(0 < jobs_in(keys) < JOBS for _, keys in short)
    # Sizes are found by trying, and half of the time is left.
    assert max(took_s for took_s, _ in short) < 1.3 * TUNING.step_s
    worked_s = sum(took_s for took_s, _ in short)
    assert worked_s < 1.1 * TUNING.share * (turned.now - begun_s)
    assert jobs_in(short[-1][1]) > 1
    turned.now = turned.ended["heard"] + TUNING.expected_s + 0.1
    turned.engine.step()
    assert {jobs_in(keys) for _, keys in turned.run_for(0.3)} == {JOBS}


def test_jobs_step_by_step_while_a_listener_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(
        DraftLengths, "widen", lambda _self, chosen, *rest: told.extend(rest[-1:] * bool(chosen))
    )
    turned = Turned(jobs=1)
    turned.engine._rounds = 8
    turned.run_for(0.1)
    assert set(told) == {8}
    turned.engine.expect()
    turned.engine.step()
    told.clear()
    turned.run_for(2.0)
    assert set(told) == {1}


def test_what_jobs_cost_is_not_promised_to_listeners() -> None:
    turned = Turned()
    alone = turned.engine.step_seconds
    turned.speak("heard", 400)
    turned.run_for(3.0)
    assert turned.engine.step_seconds[1] == pytest.approx(alone[1], rel=0.2)


def test_jobs_go_on_beside_listeners_who_come_for_ever() -> None:
    """Listeners as fast as half of the engine's speed; jobs never wait for longer than 3 s."""
    turned, dice, came = Turned(), random.Random(3), 0
    next_s = 0.0
    while jobs_in(list(turned.ended)) < JOBS:
        if turned.now >= next_s and turned.engine.streams < turned.engine.capacity:
            turned.speak(f"heard{came}", LETTERS)
            came, next_s = came + 1, turned.now + dice.expovariate(1 / 1.0)
        turned.run_for(0.05)
    with_jobs = [at for at, _, keys in turned.steps if jobs_in(keys)]
    assert max(np.diff(with_jobs)) < 3.0
    assert came > 10
    for n in range(JOBS):
        assert turned.codes(f"job{n}") == expected(SEED, int(JOB_LETTERS * 1.6))


def test_no_step_is_for_jobs_while_a_listener_s_text_is_read() -> None:
    turned = Turned()
    turned.run_for(0.1)
    turned.engine.expect()
    turned.engine.step()
    assert turned.run_for(0.9 * TUNING.first_s) == []
    assert turned.run_for(0.2 * TUNING.first_s) != []


def test_what_jobs_hold_of_the_cache_is_free_to_listeners() -> None:
    turned = Turned()
    turned.run_for(1.0)
    free, total = turned.engine.kv_positions
    assert free == total
    turned.speak("heard", 400)
    turned.engine.step()
    turned.engine.step()
    free, total = turned.engine.kv_positions
    assert 0 < free < total


def heard_alone(listeners: int, depth: int = 0) -> Turned:
    """Listeners a tenth of a second apart, and three seconds of them, by a quick engine."""
    turned = Turned(jobs=0, curve=StepCurve(0.001, 0.001, 0.001), depth=depth)
    for n in range(listeners):
        turned.speak(f"heard{n}", 400)
        turned.run_for(0.1)
    turned.run_for(3.0)
    for n in range(listeners):
        said = turned.codes(f"heard{n}")
        assert said == expected(SEED, len(said))
    return turned


def test_what_comes_due_while_a_turn_finds_nothing_is_not_waited_for() -> None:
    turned = heard_alone(LIMITS.company)
    turned.until(lambda: turned.engine.waits)
    rest_s, said = turned.engine.wait_s, len(turned.steps)
    assert 0.0 < rest_s < 1 / 25.0 / LIMITS.together_pace
    turned.now += rest_s + 0.0001
    assert turned.engine.wait_s == 0.0
    turned.engine.step()
    assert len(turned.steps) == said + 1


def test_with_company_streams_that_are_well_supplied_share_steps() -> None:
    def steps(listeners: int, depth: int = 0) -> list[tuple[float, int]]:
        made = heard_alone(listeners, depth).steps
        return [(at, len(keys)) for at, _, keys in made if 1.5 < at < 2.5]

    alone, company = steps(LIMITS.company - 1), steps(LIMITS.company)
    assert {streams for _, streams in company} == {LIMITS.company}
    frame_s = 1 / 25.0 / LIMITS.together_pace
    assert min(np.diff([at for at, _ in company])) >= frame_s
    on_a_device = steps(LIMITS.company, depth=1)
    for others in (alone, on_a_device):
        assert max(np.diff([at for at, _ in others])) < frame_s
