"""Admission in virtual time, on machines that nobody has measured.

Whatever the machine, its neighbours, the texts and the keys are: accepted streams do not run dry,
and what the machine has is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import pytest
from msgspec import structs

from antiphon_bench.plan.costs import Curves, Setup, Shape, read_curves
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.gateways import Call, Gateway, Heard
from antiphon_bench.plan.loads import ClosedLoop, Wanted
from antiphon_bench.plan.workers import Worker
from antiphon_bench.results import Outcome
from tests.unit.antiphon_bench.plan.scene import lose_a_talker
from ttscommon.wire.requests import OFFLINE

LENGTH_S: Final = 20.0
KEYS: Final = ("alice", "bob")
JOB_S: Final = -1.0  # when portions of books are said to have been asked for


@pytest.fixture(scope="module")
def curves() -> Curves:
    return read_curves(Path(__file__).parents[4] / "bench/curves/vesper")


@dataclass(frozen=True)
class Scene:
    """cores: of the one machine; the curves were measured on two. beside: the most that other
    programs take of them, now and then. users: twice what it carries and more. burst: they all
    begin within half a second. jobs: portions of books that are spoken beside them at any time.
    """

    cores: float
    beside: float
    users: int
    burst: bool
    longest: int
    dies: bool
    jobs: int = 0

    @classmethod
    def of(cls, seed: int) -> Scene:
        dice = Random(seed)
        # Two cores carry some thirty streams.
        cores = 2.0 * 3.0 ** dice.uniform(-1.0, 1.0)
        users = round(15 * cores * dice.uniform(2.0, 3.0))
        beside = cores * dice.choice((0.0, 0.1, 0.2))
        burst, longest = dice.random() < 0.5, dice.choice((60, 150, 600))
        return cls(cores, beside, users, burst, longest, False, jobs=8 * (seed % 2))


class Listeners(ClosedLoop):
    """Users of two keys, who come back when they are told."""

    def __init__(self, scene: Scene, seed: int) -> None:
        spread_s = 0.5 if scene.burst else 5.0
        super().__init__(scene.users, self._lengths(scene, seed), LENGTH_S, spread_s)
        self.first = map(_keyed, self.first)

    @staticmethod
    def _lengths(scene: Scene, seed: int) -> Iterator[int]:
        dice = Random(f"texts {seed}")
        while True:
            yield dice.randint(20, scene.longest)

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        if wanted.user < 0:  # a job's portion: its desk knows what follows
            return None
        one = super().next(wanted, heard_s, outcome, retry_s)
        return one and _keyed(one)


class OfflineClients(Gateway):
    """Speaks portions of books that no listener hears as they are made, so many at once."""

    def __init__(self, fleet: Fleet, portions: int) -> None:
        super().__init__(fleet, "offline", fleet.nodes[0])
        self.edge = fleet.gateways[0].edge
        self._deployment = fleet
        self.numbers = count(1_000_000)
        for _ in range(portions):
            fleet.kernel.at(0.0, self._begin)

    def _begin(self) -> None:
        fleet = self._deployment
        speech = fleet.setup.curves.costs.speech
        call = Call.of(next(self.numbers), Wanted(JOB_S, 0), speech)
        call.frames = round(10.0 * speech.frame_rate_hz)
        call.gateway, call.request = self, structs.replace(call.request, priority=OFFLINE)
        fleet.calls[call.key] = call
        fleet.talkers.submit(call)

    def spoke(self, call: Call) -> None:
        call.silent = False

    def end(self, call: Call) -> None:
        if self._deployment.kernel.now < LENGTH_S:
            self._begin()


def _keyed(wanted: Wanted) -> Wanted:
    return replace(wanted, key_name=KEYS[wanted.user % len(KEYS)])


def neighbour(fleet: Fleet, most: float, seed: int) -> None:
    """Another program takes some of the machine, comes and goes."""
    dice, node, at_s = Random(f"beside {seed}"), fleet.nodes[0], 0.0

    def take(cores: float) -> None:
        node.idle += cores

    while most and at_s < LENGTH_S:
        at_s += dice.uniform(1.0, 4.0)
        cores, for_s = dice.uniform(0.2, 1.0) * most, dice.uniform(0.5, 3.0)
        fleet.kernel.at(at_s, lambda cores=cores: take(cores))  # type: ignore[misc]
        at_s += for_s
        fleet.kernel.at(at_s, lambda cores=cores: take(-cores))  # type: ignore[misc]


def served(
    curves: Curves, scene: Scene, seed: int, shape: Shape | None = None
) -> tuple[list[Heard], Fleet]:
    """`shape`: None for one machine, with a second worker of each stage where one dies."""
    if shape is None:
        workers = 2 if scene.dies else 1
        shape = Shape(talkers=workers, vocoders=workers, nodes=1, cores=scene.cores)
    weights = tuple((name, 1.0) for name in KEYS)
    fleet = Fleet(Setup(curves, shape, weights=weights))
    neighbour(fleet, scene.beside, seed)
    if scene.jobs:
        OfflineClients(fleet, scene.jobs)
    if scene.dies:
        place = Random(f"faults {seed}").randrange(shape.talkers)
        fleet.kernel.at(LENGTH_S / 2, lambda: lose_a_talker(fleet, place))
    return fleet.run(Listeners(scene, seed), LENGTH_S + 120.0), fleet


def dry_s(heard: list[Heard]) -> list[float]:
    """The longest gap of each listener that was accepted."""
    ok = [one for one in heard if one.outcome == "ok" and one.at_s != JOB_S]
    return [one.account.longest_underrun_s for one in ok]


def p95_s(heard: list[Heard]) -> float:
    """Of listeners' first sounds."""
    first = [one.ttfp_s for one in heard if one.ttfp_s is not None and one.at_s != JOB_S]
    return float(np.quantile(first, 0.95))


def used(fleet: Fleet, cores: float) -> float:
    """The share of its time that the busiest part worked: an engine, or all cores together."""
    stages: list[Worker] = [*fleet.talkers.workers, *fleet.vocoders.workers]
    engines = [one.busy_s for one in stages]
    edges = [one.edge.worked_s for one in stages] + [one.edge.worked_s for one in fleet.gateways]
    worked_s = sum(engines) + sum(edges) + fleet.bus.worked_s
    return max(max(engines), worked_s / cores) / LENGTH_S


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
def test_who_is_let_in_does_not_run_dry_and_the_machine_is_used(curves: Curves, seed: int) -> None:
    scene = Scene.of(seed)
    heard, fleet = served(curves, scene, seed)
    assert not any(dry_s(heard))
    assert used(fleet, scene.cores - scene.beside / 4) > 0.6
    assert not [one for one in heard if one.outcome == "error"]


def test_jobs_leave_listeners_their_first_sounds_and_lose_none_of_the_machine(
    curves: Curves,
) -> None:
    """Eight portions of books at any time, beside fewer listeners than there is room for."""
    few = Scene(cores=2.0, beside=0.0, users=12, burst=False, longest=150, dies=False)
    alone, _ = served(curves, few, 1)
    beside, fleet = served(curves, replace(few, jobs=8), 1)
    assert not any(dry_s(beside))
    assert p95_s(beside) < p95_s(alone) + 0.05
    assert sum(one.at_s == JOB_S for one in beside) > 8
    assert used(fleet, 2.0) > 0.6


def test_a_talker_that_dies_is_no_longer_counted_on(curves: Curves) -> None:
    """Who hears it is handed on; behind that nobody who is let in runs dry."""
    scene = Scene(cores=3.0, beside=0.0, users=90, burst=False, longest=150, dies=True)
    heard, _ = served(curves, scene, 1)
    late = [one for one in heard if one.at_s > LENGTH_S / 2 + 3.0 and one.outcome == "ok"]
    assert len(late) > 20
    assert not any(one.account.longest_underrun_s for one in late)


@pytest.mark.slow
def test_of_a_thousand_listeners_none_misses_one_talker_of_a_fleet(curves: Curves) -> None:
    """Twenty pairs on machines of four cores, behind four gateways."""
    shape = Shape(gateways=4, talkers=20, vocoders=20, nodes=20, cores=4.0)
    scene = Scene(cores=4.0, beside=0.0, users=1000, burst=False, longest=150, dies=True)
    heard, _ = served(curves, scene, 1, shape)
    assert len(dry_s(heard)) > 2000
    assert max(dry_s(heard)) < 0.1
    assert not [one for one in heard if one.outcome == "error"]
