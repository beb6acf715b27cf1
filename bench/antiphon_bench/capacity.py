"""The number of realtime listeners a stack carries, and which of its processes gives way first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from antiphon_bench.config import Closed, RunConfig
from antiphon_bench.processes import Use, stack_at, use
from antiphon_bench.results import Summary, write_json
from antiphon_bench.run import run

_FULL: Final = 0.9
_TTFP_P95_S: Final = 0.5
_GENERATOR: Final = "generator"

Measure = Callable[[RunConfig], tuple[Summary, Use]]


class Point(msgspec.Struct, frozen=True):
    """One load. `cores`: CPU time over wall time by process; `machine`: of all its cores."""

    listeners: int
    summary: Summary
    cores: dict[str, float]
    machine: float

    @property
    def carried(self) -> bool:
        """Whether all were served, promptly and without a single chunk too late."""
        ttfp = self.summary.quantiles.get("ttfp_s")
        prompt = ttfp is not None and ttfp.p95 <= _TTFP_P95_S
        whole = self.summary.ok == self.summary.offered > 0
        return prompt and whole and self.summary.viable_stream_share == 1.0

    @property
    def limit(self) -> str:
        """What had no more to give at this load."""
        name, cores = max(self.cores.items(), key=lambda item: item[1])
        if cores >= _FULL:
            return f"{name}, at {cores:.2f} of its core"
        if self.machine >= _FULL:
            ours = sum(self.cores.values())
            return f"the machine, at {self.machine:.0%}; {ours:.2f} cores of it ours, {name} first"
        return "no process and not the machine: an engine, a slot, a setting or a stall"


class Capacity(msgspec.Struct, frozen=True):
    """The loads in order, up to the first that was not carried."""

    points: list[Point]
    carried: int | None
    broke_at: int | None
    limit: str | None


def capacity(
    config: RunConfig,
    listeners: Sequence[int],
    report: Callable[[Point], object] = lambda point: None,
    measure: Measure | None = None,
    settle_s: float = 3.0,
) -> Capacity:
    """One load after another until one is not carried; writes capacity.json. Blocks.

    Carried is a load whose every stream is viable, with a p95 of TTFP of at most half a second.
    Every listener asks anew when it has heard the last sample. Raises NotHere.
    """
    points: list[Point] = []
    for count in listeners:
        if points:
            time.sleep(settle_s)
        arrivals = Closed(concurrency=count)
        update = {"arrivals": arrivals, "out": config.out / str(count), "label": f"{count}"}
        summary, used = (measure or _measure)(config.model_copy(update=update))
        cores = {**used.cores, _GENERATOR: summary.generator.cpu_share}
        points.append(Point(count, summary, cores, used.machine))
        report(points[-1])
        if not points[-1].carried:
            break
    found = Capacity(
        points,
        carried=max((p.listeners for p in points if p.carried), default=None),
        broke_at=next((p.listeners for p in points if not p.carried), None),
        limit=next((p.limit for p in points if not p.carried), None),
    )
    write_json(config.out / "capacity.json", found)
    return found


def _measure(config: RunConfig) -> tuple[Summary, Use]:
    stack = stack_at(config.target.url)
    with ThreadPoolExecutor(1) as aside:
        used = aside.submit(use, stack, config.warmup_s, config.duration_s)
        return run(config), used.result()
