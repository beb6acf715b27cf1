import statistics
from itertools import pairwise

import pytest

from antiphon_bench.arrivals import arrival_times, closed_loop, open_loop
from antiphon_bench.config import Closed, Gamma, Poisson, RunConfig


def variation(times: list[float]) -> float:
    gaps = [b - a for a, b in pairwise(times)]
    return statistics.stdev(gaps) / statistics.fmean(gaps)


@pytest.mark.parametrize(
    ("arrivals", "cv"), [(Poisson(rate=50.0), 1.0), (Gamma(rate=50.0, cv=3.0), 3.0)]
)
def test_arrivals_have_their_rate_and_their_variation(arrivals: Poisson | Gamma, cv: float) -> None:
    times = arrival_times(arrivals, 1000.0, seed=1)
    assert len(times) / 1000.0 == pytest.approx(50.0, rel=0.06)
    assert variation(times) == pytest.approx(cv, rel=0.1)
    assert times == sorted(times)
    assert times[-1] < 1000.0


def test_the_seed_decides_everything() -> None:
    config = RunConfig(arrivals=Poisson(rate=20.0), seed=3)
    assert open_loop(config) == open_loop(config)
    assert open_loop(config) != open_loop(config.model_copy(update={"seed": 4}))


def test_another_rate_speaks_the_same_texts() -> None:
    slow = open_loop(RunConfig(arrivals=Poisson(rate=5.0)))
    fast = open_loop(RunConfig(arrivals=Poisson(rate=50.0)))
    closed = closed_loop(RunConfig(arrivals=Closed(concurrency=2)))
    assert [j.text for j in slow] == [j.text for j in fast[: len(slow)]]
    assert [j.text for j in slow] == [next(closed).text for _ in slow]
