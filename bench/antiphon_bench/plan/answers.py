"""One simulated run in figures, and whether they are what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from antiphon_bench.plan.calls import Heard
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import Demand, OpenLoop
from antiphon_bench.plan.shapes import Setup
from antiphon_bench.stats import quantiles, share

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


def answer(heard: Sequence[Heard], fleet: Fleet, since_s: float, until_s: float) -> Answer:
    """Figures of the requests that came within [since_s, until_s)."""
    counted = [one for one in heard if since_s <= one.at_s < until_s]
    outcomes = Counter(one.outcome for one in counted)
    accepted = outcomes["ok"] + outcomes["error"]
    ttfp = quantiles(one.ttfp_s for one in counted if one.ttfp_s is not None)
    viable = sum(one.viable and one.outcome == "ok" for one in counted)
    length_s = until_s - since_s
    return Answer(
        requests=len(counted),
        ok=outcomes["ok"],
        refused=outcomes["refused"],
        failed=outcomes["error"],
        rate=len(counted) / length_s,
        ttfp_p50_s=ttfp.p50 if ttfp else None,
        ttfp_p95_s=ttfp.p95 if ttfp else None,
        ttfp_p99_s=ttfp.p99 if ttfp else None,
        viable_share=share(viable, accepted),
        refused_share=share(outcomes["refused"], len(counted)) or 0.0,
        underruns=sum(one.underruns for one in counted),
        longest_underrun_s=max((one.longest_s for one in counted), default=0.0),
        sound_s_per_s=sum(one.sound_s for one in counted) / length_s,
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
