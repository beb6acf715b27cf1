"""Start times and texts of requests: a pure function of the configuration and its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from antiphon_bench.config import Closed, Gamma, Poisson, RunConfig
from antiphon_bench.texts import sentences


@dataclass(frozen=True)
class ScheduledRequest:
    """One request to come. `at_s` is on the run's clock; closed-loop jobs have no fixed time."""

    index: int
    at_s: float
    text: str
    voice: str


def gaps(arrivals: Poisson | Gamma, rng: random.Random) -> Iterator[float]:
    """Endless gaps between arrivals (s), of mean 1 / rate."""
    if isinstance(arrivals, Poisson):
        while True:
            yield rng.expovariate(arrivals.rate)
    shape = 1.0 / arrivals.cv**2
    scale = 1.0 / (arrivals.rate * shape)
    while True:
        yield rng.gammavariate(shape, scale)


def arrival_times(arrivals: Poisson | Gamma, until_s: float, seed: int) -> list[float]:
    """Ascending arrival times in [0, until_s)."""

    def times() -> Iterator[float]:
        now = 0.0
        for gap in gaps(arrivals, random.Random(f"arrivals {seed}")):
            now += gap
            yield now

    return list(takewhile(lambda t: t < until_s, times()))


def utterances(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Endless (text, voice), the same for every rate: only the seed and the text set matter."""
    rng = random.Random(f"texts {config.seed}")
    pool = sentences(config.texts)
    while True:
        yield rng.choice(pool), rng.choice(config.target.voices)


def open_loop(config: RunConfig) -> list[ScheduledRequest]:
    """The whole schedule of an open-loop run."""
    assert not isinstance(config.arrivals, Closed), "a closed loop has no schedule"
    until_s = config.warmup_s + config.duration_s
    times = arrival_times(config.arrivals, until_s, config.seed)
    speech = utterances(config)
    return [ScheduledRequest(i, at_s, *next(speech)) for i, at_s in enumerate(times)]


def closed_loop(config: RunConfig) -> Iterator[ScheduledRequest]:
    """Endless jobs; a user takes the next one when ready."""
    speech = utterances(config)
    return (ScheduledRequest(i, 0.0, *next(speech)) for i in count())
