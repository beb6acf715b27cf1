"""One simulated run in figures, and whether they are what was asked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from antiphon_bench.plan.calls import OUTCOMES, Heard, OpenLoop
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import Demand
from antiphon_bench.plan.shapes import Setup

# After the last request, so that the longest text can end.
_DRAIN_S = 300.0


class Target(msgspec.Struct, frozen=True):
    """What listeners are to get. ttfp_p95_s: of the first sound. viable: share of the streams that
    were served without a gap. refused: of all requests, at most.
    """

    ttfp_p95_s: float = 0.5
    viable: float = 0.99
    refused: float = 0.001


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet gives at a load. Times in seconds, shares 0..1.

    busy: of the busiest process of each kind, the share of its time; for engines what they compute.
    underruns: gaps that listeners heard. waited: most jobs that ever waited for a talker's slot.
    """

    requests: int
    ok: int
    refused: int
    failed: int
    rate: float
    ttfp_p50_s: float | None
    ttfp_p95_s: float | None
    ttfp_p99_s: float | None
    viable_share: float | None
    refused_share: float
    underruns: int
    longest_underrun_s: float
    sound_s_per_s: float
    busy: dict[str, float]
    waited: int

    def misses(self, target: Target) -> list[str]:
        """The targets that it does not meet, in words."""
        found = []
        if self.ttfp_p95_s is None or self.ttfp_p95_s > target.ttfp_p95_s:
            took = "there is none" if self.ttfp_p95_s is None else f"{self.ttfp_p95_s:.3f} s"
            found.append(f"p95 of the first sound: {took}")
        if self.viable_share is None or self.viable_share < target.viable:
            found.append(f"viable streams: {self.viable_share or 0.0:.2%}")
        if self.refused_share > target.refused:
            found.append(f"refused: {self.refused_share:.2%}")
        return found


def answer(heard: Heard, fleet: Fleet, since_s: float, until_s: float) -> Answer:
    """Figures of the requests that came within [since_s, until_s)."""
    at_s = np.array(heard.at_s)
    counted = (at_s >= since_s) & (at_s < until_s)
    outcomes = np.array(heard.outcomes)[counted]
    ok, refused, failed = (int((outcomes == i).sum()) for i in range(len(OUTCOMES)))
    served = np.array(heard.ttfp_s)[counted]
    served = served[served >= 0.0]
    p50, p95, p99 = np.quantile(served, (0.5, 0.95, 0.99)).tolist() if len(served) else [None] * 3
    whole = np.array(heard.chunks) == np.array(heard.viable_chunks)
    viable = int((whole[counted] & (outcomes == 0)).sum())
    gaps, longest = np.array(heard.underruns)[counted], np.array(heard.longest_s)[counted]
    total = max(1, len(outcomes))
    return Answer(
        requests=len(outcomes),
        ok=ok,
        refused=refused,
        failed=failed,
        rate=len(outcomes) / (until_s - since_s),
        ttfp_p50_s=p50,
        ttfp_p95_s=p95,
        ttfp_p99_s=p99,
        viable_share=viable / (ok + failed) if ok + failed else None,
        refused_share=refused / total,
        underruns=int(gaps.sum()),
        longest_underrun_s=float(longest.max(initial=0.0)),
        sound_s_per_s=float(np.array(heard.sound_s)[counted].sum()) / (until_s - since_s),
        busy=_busy(fleet, until_s),
        waited=fleet.talkers.most_waiting,
    )


def _busy(fleet: Fleet, until_s: float) -> dict[str, float]:
    """The share of its time that the busiest process of each kind works."""

    def most(worked_s: Iterable[float]) -> float:
        return min(1.0, max(worked_s, default=0.0) / max(1e-9, until_s))

    talkers, vocoders = fleet.talkers.workers, fleet.vocoders.workers
    return {
        "talker": most(one.busy_s for one in talkers),
        "vocoder": most(one.busy_s for one in vocoders),
        "talker's edge": most(one.edge.worked_s for one in talkers),
        "vocoder's edge": most(one.edge.worked_s for one in vocoders),
        "gateway": most(one.edge.worked_s for one in fleet.gateways),
        "broker": most([fleet.bus.worked_s]),
    }


def simulate(setup: Setup, demand: Demand, *, seed: int = 0, scale: float = 1.0) -> Answer:
    """Run a demand against a fleet. Raises PlanError."""
    fleet = Fleet(setup)
    heard = fleet.run(OpenLoop(demand.wanted(seed, scale)), demand.length_s + _DRAIN_S)
    return answer(heard, fleet, demand.warmup_s, demand.length_s)
