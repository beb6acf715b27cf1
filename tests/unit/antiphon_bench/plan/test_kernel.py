"""Virtual time, held to what is known of queues."""

import math
import random
from functools import partial
from statistics import fmean, pstdev

import pytest

from antiphon_bench.plan.kernel import Kernel, Node, Station


def mean_wait_s(load: float, servers: int = 1, requests: int = 40_000) -> float:
    """Mean wait of Poisson arrivals for a station that takes a second for each."""
    kernel = Kernel()
    station = Station(kernel, servers=servers)
    waits: list[float] = []
    rng = random.Random(7)

    def arrive() -> None:
        came_s = kernel.now
        station.serve(1.0, lambda: waits.append(kernel.now - came_s - 1.0))

    at_s = 0.0
    for _ in range(requests):
        at_s += rng.expovariate(load * servers)
        kernel.at(at_s, arrive)
    kernel.run()
    assert len(waits) == requests
    return fmean(waits)


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_a_station_with_poisson_arrivals_is_the_queue_m_d_1(load: float) -> None:
    # Pollaczek and Khinchine: half of what it would be with exponential service.
    assert mean_wait_s(load) == pytest.approx(load / (2.0 * (1.0 - load)), rel=0.08)


def test_many_servers_wait_less_than_one_at_the_same_load() -> None:
    assert mean_wait_s(0.8, servers=4) < 0.4 * mean_wait_s(0.8)


def test_actions_run_in_the_order_of_their_moments_and_then_as_they_were_scheduled() -> None:
    kernel, done = Kernel(), list[str]()
    for when_s, name in ((2.0, "late"), (1.0, "first"), (1.0, "second")):
        kernel.at(when_s, partial(done.append, name))
    kernel.at(1.0, lambda: kernel.at(0.0, partial(done.append, "never before now")))
    kernel.run(1.5)
    assert done == ["first", "second", "never before now"]
    kernel.run()
    assert done[3:] == ["late"]


def test_a_process_waits_for_others_and_not_for_itself() -> None:
    kernel, node = Kernel(), Node(1.0)
    busy, other = (Station(kernel, node, name=name) for name in ("busy", "other"))
    busy.serve(0.4, lambda: None)
    assert busy.stretch() == 1.0
    assert fmean(other.stretch() for _ in range(2_000)) > 1.5


def test_waits_are_spread_as_widely_as_their_mean_is_long() -> None:
    kernel, node = Kernel(), Node(1.0)
    node.computing = 1
    waits = [stretch - 1.0 for stretch in map(Station.stretch, [Station(kernel, node)] * 4_000)]
    assert fmean(waits) == pytest.approx(1.0, rel=0.1)
    assert pstdev(waits) == pytest.approx(1.0, rel=0.1)


def test_what_computes_beside_others_takes_as_much_longer_as_cores_are_short() -> None:
    node = Node(2.0)
    node.computing = 1
    assert node.stretch(0.0) == 1.0
    node.computing = 2
    assert node.stretch(0.0) == 1.5
    node.worked.add(0.25, 0.0)  # a quarter of a second of work, remembered for half a second
    assert node.stretch(0.0) == 2.0
    assert node.stretch(60.0) == pytest.approx(1.5)
    node.worked.add(100.0, 60.0)
    assert node.stretch(60.0) == pytest.approx(3 / 0.2)


def test_a_machine_without_bounds_never_slows_down_and_counts_as_full() -> None:
    node = Node(math.inf)
    node.computing = 1000
    node.worked.add(1e6, 0.0)
    assert node.stretch(0.0) == 1.0
    assert node.crowding(0.0) == 1.0


def test_a_machine_is_crowded_by_as_many_of_its_other_cores_as_work() -> None:
    node = Node(3.0)
    assert node.crowding(0.0) == 0.0
    node.idle = 0.5
    assert node.crowding(0.0) == 0.25
    node.computing = 1
    assert node.crowding(0.0) == 0.75
    node.computing = 5
    assert node.crowding(0.0) == 1.0
    assert Node(1.0).crowding(0.0) == 0.0
