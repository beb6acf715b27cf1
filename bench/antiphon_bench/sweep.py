"""Looks for a server's goodput by measuring one load after another, and for a multiple of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final
from urllib.parse import urlsplit

import msgspec

from antiphon_bench.config import Closed, RunConfig, SweepConfig
from antiphon_bench.results import Summary, Sweep, write_json
from antiphon_bench.run import run
from antiphon_bench.stats import meets, sweep_of


def climb(config: SweepConfig, met: Callable[[float], bool]) -> None:
    """Try loads with `met` until one fails, then between the highest that was met and that one."""
    rate, passed, failed = config.start, 0.0, 0.0
    while not failed and (not passed or rate <= config.ceiling):
        if met(rate):
            passed, rate = rate, rate * config.factor
        else:
            failed = rate
    for _ in range(config.refine if failed else 0):
        # Loads are compared as ratios, so the middle is the geometric one.
        rate = math.sqrt(passed * failed) if passed else failed / config.factor
        if met(rate):
            passed = rate
        else:
            failed = rate


def at_rate(config: RunConfig, rate: float) -> RunConfig:
    """The same run at another load, in its own folder."""
    if isinstance(config.arrivals, Closed):
        update: dict[str, float] = {"concurrency": max(1, round(rate))}
    else:
        update = {"rate": rate}
    return config.model_copy(
        update={
            "arrivals": config.arrivals.model_copy(update=update),
            "out": config.out / f"load-{rate:.3f}",
        }
    )


def sweep(
    config: SweepConfig,
    *,
    measure: Callable[[RunConfig], Summary] = run,
    report: Callable[[Summary, bool], None] = lambda _summary, _passed: None,
) -> Sweep:
    """Measures every load, writes sweep.json after each and returns the whole; blocks."""
    points: list[Summary] = []
    targets = {"ttfp_p95_s": config.ttfp_p95_s, "viable_share": config.viable_share}

    def point(rate: float) -> bool:
        if points:
            time.sleep(config.settle_s)  # the server's queues empty between two loads
        points.append(measure(at_rate(config.run, rate)))
        passed = meets(points[-1], **targets)
        report(points[-1], passed)
        write_json(config.run.out / "sweep.json", sweep_of(config.run.label, points, **targets))
        return passed

    if config.rates:
        for fixed in config.rates:
            point(fixed)
    else:
        climb(config, point)
    return sweep_of(config.run.label, points, **targets)


def in_turns(
    config: SweepConfig,
    urls: Sequence[str],
    repeats: int,
    *,
    measure: Callable[[RunConfig], Summary] = run,
) -> Iterator[Summary]:
    """Measures every load of `config.rates` at every address, one after the other, `repeats` times.

    What the machine does meanwhile, or becomes, is the same for all. Blocks before each.
    """
    for number, (rate, repeat, url) in enumerate(product(config.rates, range(repeats), urls)):
        if number:
            time.sleep(config.settle_s)
        label = urlsplit(url).netloc
        one = at_rate(config.run, rate)
        yield measure(
            one.model_copy(
                update={
                    "target": config.run.target.model_copy(update={"url": url}),
                    "label": label,
                    "seed": config.run.seed + repeat,
                    "out": one.out / f"{label.replace(':', '-')}-{repeat}",
                }
            )
        )


REFUSED_WITHIN_S: Final = 0.05
_VIABLE_SHARE: Final = 0.999


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold. `value` is None where there was nothing to measure."""

    what: str
    value: float | None
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value <= self.limit if self.at_most else self.value >= self.limit


class Comparison(msgspec.Struct, frozen=True):
    """Runs side by side, by label, and what they had to show."""

    title: str
    runs: dict[str, Summary]
    checks: list[Check]


def overload(
    search: SweepConfig,
    goodput: float | None = None,
    factor: float = 2.0,
    measure: Callable[[RunConfig], Summary] = run,
) -> Comparison:
    """The goodput rate, looked for unless given, and `factor` times as much.

    Who is let in must be served without a gap, and who is not must hear so at once.
    """
    config = search.run
    if goodput is None:
        goodput = sweep(search, measure=measure).goodput
        if goodput is None:
            raise ValueError(f"not even {search.start:g} requests/s is goodput")
        time.sleep(search.settle_s)
    runs = {}
    for name, rate in (("goodput", goodput), ("overload", factor * goodput)):
        plan = at_rate(config, rate).model_copy(update={"label": name, "out": config.out / name})
        runs[name] = measure(plan)
        time.sleep(search.settle_s)
    over = runs["overload"]
    refused = over.quantiles.get("refused_s")
    refused_s = refused.p99 if refused else None
    checks = [
        Check(
            "viable share of the accepted, overloaded",
            over.viable_stream_share,
            _VIABLE_SHARE,
            at_most=False,
        ),
        Check("p99 of a refusal (s), overloaded", refused_s, REFUSED_WITHIN_S),
        Check("failed, overloaded", over.failed, 0.0),
    ]
    found = Comparison(f"{factor:g} times the goodput", runs, checks)
    write_json(config.out / "comparison.json", found)
    return found
