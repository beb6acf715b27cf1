"""Admission in virtual time, on machines that nobody has measured.

Whatever the machine, its neighbours, the texts and the keys are: accepted streams do not run dry,
and what the machine has is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import pytest

from antiphon_bench.plan.calls import OUTCOMES, ClosedLoop, Heard, Outcome, Wanted
from antiphon_bench.plan.costs import Curves, read_curves
from antiphon_bench.plan.faults import Event, Faults
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.gateways import GatewaySetup
from antiphon_bench.plan.shapes import Setup, Shape
from antiphon_bench.plan.workers import Worker

LENGTH_S: Final = 20.0
KEYS: Final = ("alice", "bob")
ERROR: Final = OUTCOMES.index("error")


@pytest.fixture(scope="module")
def curves() -> Curves:
    return read_curves(Path(__file__).parents[4] / "bench/curves/vesper")


@dataclass(frozen=True)
class Scene:
    """cores: of the one machine; the curves were measured on two. beside: the most that other
    programs take of them, now and then. users: twice what it carries and more. burst: they all
    begin within half a second.
    """

    cores: float
    beside: float
    users: int
    burst: bool
    longest: int
    dies: bool

    @classmethod
    def of(cls, seed: int) -> Scene:
        dice = Random(seed)
        # Two cores carry some thirty streams.
        cores = 2.0 * 3.0 ** dice.uniform(-1.0, 1.0)
        users = round(15 * cores * dice.uniform(2.0, 3.0))
        beside = cores * dice.choice((0.0, 0.1, 0.2))
        return cls(cores, beside, users, dice.random() < 0.5, dice.choice((60, 150, 600)), False)


class Listeners(ClosedLoop):
    """Users of two keys, who come back when they are told."""

    def __init__(self, scene: Scene, seed: int) -> None:
        spread_s = 0.5 if scene.burst else 5.0
        super().__init__(scene.users, self._lengths(scene, seed), LENGTH_S, spread_s)

    @staticmethod
    def _lengths(scene: Scene, seed: int) -> Iterator[int]:
        dice = Random(f"texts {seed}")
        while True:
            yield dice.randint(20, scene.longest)

    def first(self) -> Iterator[tuple[Wanted, int]]:
        return ((_keyed(one, user), user) for one, user in super().first())

    def next(
        self, user: int, characters: int, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        one = super().next(user, characters, heard_s, outcome, retry_s)
        return one and _keyed(one, user)


def _keyed(wanted: Wanted, user: int) -> Wanted:
    return replace(wanted, key_name=KEYS[user % len(KEYS)])


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


def served(curves: Curves, scene: Scene, seed: int) -> tuple[Heard, Fleet]:
    workers = 2 if scene.dies else 1
    shape = Shape(talkers=workers, vocoders=workers, nodes=1, cores=scene.cores)
    weights = tuple((name, 1.0) for name in KEYS)
    fleet = Fleet(Setup(curves, shape, GatewaySetup(weights=weights)))
    neighbour(fleet, scene.beside, seed)
    if scene.dies:
        Faults(fleet, seed).schedule([Event("talker", LENGTH_S / 2)], LENGTH_S)
    return fleet.run(Listeners(scene, seed), LENGTH_S + 120.0), fleet


def dry_s(heard: Heard) -> list[float]:
    """The longest gap of each that was accepted."""
    accepted = np.array(heard.outcomes) == 0
    return [float(one) for one in np.array(heard.longest_s)[accepted]]


def used(fleet: Fleet, cores: float) -> float:
    """The share of its time that the busiest part worked: an engine, or all cores together."""
    stages: list[Worker] = [*fleet.talkers.workers, *fleet.vocoders.workers]
    engines = [one.busy_s for one in stages]
    edges = [one.edge.worked_s for one in stages] + [one.edge.worked_s for one in fleet.gateways]
    worked_s = sum(engines) + sum(edges) + fleet.bus.worked_s
    return max(max(engines), worked_s / cores) / LENGTH_S


@pytest.mark.parametrize("seed", range(8))
def test_who_is_let_in_does_not_run_dry_and_the_machine_is_used(curves: Curves, seed: int) -> None:
    scene = Scene.of(seed)
    heard, fleet = served(curves, scene, seed)
    gaps = dry_s(heard)
    assert sum(gap > 0.0 for gap in gaps) <= 1 + 0.05 * len(gaps)
    assert max(gaps) < 0.1
    assert used(fleet, scene.cores - scene.beside / 4) > 0.6
    assert not [one for one in heard.outcomes if one == ERROR]


def test_a_talker_that_dies_is_no_longer_counted_on(curves: Curves) -> None:
    """Who hears it is handed on; behind that nobody who is let in runs dry."""
    scene = Scene(cores=3.0, beside=0.0, users=90, burst=False, longest=150, dies=True)
    heard, _ = served(curves, scene, 1)
    late = np.array(heard.at_s) > LENGTH_S / 2 + 3.0
    accepted = np.array(heard.outcomes) == 0
    assert np.count_nonzero(late & accepted) > 20
    assert not np.array(heard.longest_s)[late & accepted].any()
