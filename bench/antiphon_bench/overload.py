"""The goodput and a multiple of it, in one go, with what must hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from antiphon_bench.config import RunConfig, SweepConfig
from antiphon_bench.results import Summary, write_json
from antiphon_bench.run import run
from antiphon_bench.sweep import at_rate, sweep

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
