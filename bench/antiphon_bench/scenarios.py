"""Comparisons: a load alone and the same load disturbed, in one go, with what must hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from antiphon_bench.config import Poisson, Queued, RunConfig, SweepConfig, Target
from antiphon_bench.results import Summary, write_json
from antiphon_bench.run import run, run_together
from antiphon_bench.sweep import at_rate, sweep

REFUSED_WITHIN_S: Final = 0.05
_VIABLE_SHARE: Final = 0.999
_TTFP_RATIO: Final = 1.5
_QUEUE_S: Final = 3600.0

Measure = Callable[[Sequence[RunConfig]], list[Summary]]


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
    return _kept(Comparison(f"{factor:g} times the goodput", runs, checks), config.out)


def flood(
    quiet: RunConfig,
    flood_key: str,
    flood_rate: float = 100.0,
    settle_s: float = 2.0,
    measure: Measure = run_together,
) -> Comparison:
    """One key's load alone, and the same while another key floods.

    Both keys speak the same kind of texts through the same door.
    """
    target = Target.model_validate({**quiet.target.model_dump(), "api_key": flood_key})
    out = quiet.out
    alone = quiet.model_copy(update={"label": "alone", "out": out / "alone"})
    beside = quiet.model_copy(update={"label": "beside the flood", "out": out / "beside"})
    flooding = quiet.model_copy(
        update={
            "label": "the flood",
            "target": target,
            "arrivals": Poisson(rate=flood_rate),
            "seed": quiet.seed + 1,
            "out": out / "flood",
        }
    )
    runs = {"alone": measure([alone])[0]}
    time.sleep(settle_s)
    runs["beside the flood"], runs["the flood"] = measure([beside, flooding])
    before, after = (runs[name].quantiles.get("ttfp_s") for name in ("alone", "beside the flood"))
    ratio = after.p95 / before.p95 if before and after else None
    other = runs["beside the flood"]
    checks = [
        Check("p95 TTFP beside the flood / alone", ratio, _TTFP_RATIO),
        Check("refused or failed beside the flood", float(other.refused + other.failed), 0.0),
    ]
    return _kept(Comparison(f"a key flooding {flood_rate:g} requests/s", runs, checks), out)


def queues(
    config: RunConfig,
    urls: Mapping[str, str],
    requests: int = 200,
    measure: Callable[[RunConfig], Summary] = run,
) -> Comparison:
    """The same texts, all at once, to one deployment after the other, by label."""
    runs = {}
    for label, url in urls.items():
        target = config.target.model_copy(update={"url": url, "timeout_s": _QUEUE_S})
        update = {
            "target": target,
            "arrivals": Queued(requests=requests),
            "warmup_s": 0.0,
            "drain_s": _QUEUE_S,
            "label": label,
            "out": config.out / label,
        }
        runs[label] = measure(config.model_copy(update=update))
    done = sum(summary.offered - summary.ok for summary in runs.values())
    checks = [Check("not spoken to the end", float(done), 0.0)]
    return _kept(Comparison(f"{requests} texts at once", runs, checks), config.out)


def _kept(comparison: Comparison, out: Path) -> Comparison:
    write_json(out / "comparison.json", comparison)
    return comparison
