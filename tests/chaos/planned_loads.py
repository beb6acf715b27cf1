"""The loads at which the planner is held against real stacks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from antiphon_bench.config import Arrivals, Closed, Poisson, RunConfig, Target
from antiphon_bench.gpu.records import Point

ROUNDS: Final = 5
LISTENERS: Final = (8, 24, 48, 64)
RATES: Final = (1.0, 3.0, 6.0)
WARMUP_S: Final = 3.0
MEASURED_S: Final = 12.0


def stack_keys() -> Iterator[Point]:
    """Every load once before any of them a second time."""
    for number in range(ROUNDS):
        for listeners in LISTENERS:
            yield {"what": "listeners", "load": listeners, "round": number}
        for rate in RATES:
            yield {"what": "rate", "load": rate, "round": number}


def run_config(key: Point, url: str, out: Path) -> RunConfig:
    """A round is a seed."""
    arrivals: Arrivals
    if key["what"] == "listeners":
        arrivals = Closed(concurrency=key["load"])
    else:
        arrivals = Poisson(rate=key["load"])
    return RunConfig(
        target=Target(url=url, protocol="ws"),
        arrivals=arrivals,
        warmup_s=WARMUP_S,
        duration_s=MEASURED_S,
        drain_s=20.0,
        seed=key["round"],
        out=out / f"{key['what']}-{key['load']:g}-{key['round']}",
    )
