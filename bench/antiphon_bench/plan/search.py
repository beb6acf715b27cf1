"""The smallest fleet for a load and a target, by simulated runs, and what of it gives way first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final

import msgspec

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.costs import Setup, Shape
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import Demand, OpenLoop
from antiphon_bench.stats import quantiles, share

# After the last request, so that the longest text can end.
_DRAIN_S: Final = 300.0
_KINDS: Final = ("talkers", "vocoders", "gateways")
_MORE: Final = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
_PLENTY: Final = 2.0


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

    def distance(self, target: Target) -> float:
        """How far from the targets, 0 when they are met."""
        late = (self.ttfp_p95_s or 60.0) / target.ttfp_p95_s - 1.0
        gaps = target.viable - (self.viable_share or 0.0)
        return max(0.0, late) + max(0.0, gaps) + max(0.0, self.refused_share - target.refused)


def measured(
    fleet: Fleet, load: OpenLoop, since_s: float, until_s: float, drain_s: float = _DRAIN_S
) -> Answer:
    """Run a load: figures of the requests that come within [since_s, until_s). Raises PlanError."""
    worked_s: dict[str, float] = {}
    fleet.kernel.at(until_s, lambda: worked_s.update(_worked_s(fleet)))
    heard = fleet.run(load, until_s + drain_s)
    counted = [one for one in heard if since_s <= one.at_s < until_s]
    outcomes, length_s = Counter(one.outcome for one in counted), until_s - since_s
    ttfp = quantiles(one.ttfp_s for one in counted if one.ttfp_s is not None)
    viable = sum(one.account.viable and one.outcome == "ok" for one in counted)
    return Answer(
        requests=len(counted),
        ok=outcomes["ok"],
        refused=outcomes["refused"],
        failed=outcomes["error"],
        rate=len(counted) / length_s,
        ttfp_p50_s=ttfp.p50 if ttfp else None,
        ttfp_p95_s=ttfp.p95 if ttfp else None,
        ttfp_p99_s=ttfp.p99 if ttfp else None,
        viable_share=share(viable, outcomes["ok"] + outcomes["error"]),
        refused_share=share(outcomes["refused"], len(counted)) or 0.0,
        underruns=sum(one.account.underruns for one in counted),
        longest_underrun_s=max((one.account.longest_underrun_s for one in counted), default=0.0),
        sound_s_per_s=sum(one.account.duration_s for one in counted) / length_s,
        busy={kind: min(1.0, seconds / until_s) for kind, seconds in worked_s.items()},
        waited=fleet.talkers.most_waiting,
    )


def _worked_s(fleet: Fleet) -> dict[str, float]:
    """What the busiest process of each kind has worked by now."""
    talkers, vocoders = fleet.talkers.workers, fleet.vocoders.workers
    return {
        "talker": max(one.busy_s for one in talkers),
        "vocoder": max(one.busy_s for one in vocoders),
        "talker's edge": max(one.edge.worked_s for one in talkers),
        "vocoder's edge": max(one.edge.worked_s for one in vocoders),
        "gateway": max(one.edge.worked_s for one in fleet.gateways),
        "broker": fleet.bus.worked_s / fleet.setup.shape.brokers,
    }


def simulate(setup: Setup, demand: Demand, *, seed: int = 0, scale: float = 1.0) -> Answer:
    """Run a demand against a fleet. Raises PlanError."""
    load = OpenLoop(demand.wanted(seed, scale))
    return measured(Fleet(setup), load, demand.warmup_s, demand.length_s)


Report = Callable[[Shape, Answer, bool], object]


class GivesWay(msgspec.Struct, frozen=True):
    """What happens when more is asked for. scale: times the load at which `misses` begin; None:
    none of those tried. relief: the kinds of which twice as many would cure at least half of it.
    """

    scale: float | None
    misses: list[str]
    relief: list[str]


@dataclass(frozen=True)
class Question:
    """A load, and what listeners are to get.

    setup: its shape says how many brokers there are and which machines; the rest is looked for.
    most: processes of a kind, at most. report: hears of each fleet that is tried in the search.
    """

    setup: Setup
    demand: Demand
    target: Target = field(default_factory=Target)
    seed: int = 0
    most: int = 512
    report: Report = lambda shape, answer, met: None
    known: dict[tuple[Shape, float], Answer] = field(default_factory=dict, compare=False)

    def asked(self, shape: Shape, scale: float = 1.0) -> Answer:
        """What a fleet of this shape gives; it is simulated once."""
        if (shape, scale) not in self.known:
            setup = replace(self.setup, shape=shape)
            self.known[shape, scale] = simulate(setup, self.demand, seed=self.seed, scale=scale)
        return self.known[shape, scale]

    def tried(self, shape: Shape) -> bool:
        """Whether it is enough."""
        answer = self.asked(shape)
        met = not answer.misses(self.target)
        self.report(shape, answer, met)
        return met


def smallest(question: Question) -> Shape:
    """The fewest talkers with plenty of all else, then vocoders, then gateways; raises PlanError.

    A stage's need hardly depends on how much more than enough another one has. What is found is
    tried once more as a whole, and grows where it misses a target.
    """
    found = plenty(question)
    for kind in _KINDS:
        found = _with(found, _fewest(question, found, kind), kind)
    while not question.tried(found):
        if max(found.talkers, found.vocoders, found.gateways) >= question.most:
            raise PlanError(f"no fleet of at most {question.most} of a kind meets the targets")
        larger = [_with(found, getattr(found, kind) + 1, kind) for kind in _KINDS]
        found = min(larger, key=lambda one: question.asked(one).distance(question.target))
    return found


def _with(shape: Shape, number: int, kind: str) -> Shape:
    """The same with another number of one of _KINDS."""
    changed: dict[str, Any] = {kind: number}
    return replace(shape, **changed)


def plenty(question: Question) -> Shape:
    """More of everything than the load can need, from the curves alone."""
    setup, demand, curves = question.setup, question.demand, question.setup.curves
    costs, wanted = curves.costs, demand.wanted(question.seed)
    # The busiest tenth of the time counts.
    tenths = Counter(min(9, int(10 * one.at_s / demand.length_s)) for one in wanted)
    rate = max(tenths.values(), default=0) * 10 / demand.length_s
    frames = rate * fmean([costs.speech.frames(one.characters) for one in wanted] or [1])
    sound_s = frames / costs.speech.frame_rate_hz
    half = max(1, min(setup.talker.batch_streams, setup.talker.slots) // 2)
    busy = {
        "talkers": frames * (curves.talker.seconds(half, 0) / half + curves.talker.render_frame_s),
        "vocoders": frames * (curves.vocoder.step_s(1, 16) / 16),
        "gateways": rate * costs.gateway.request_s + sound_s * costs.gateway.sound_s,
    }
    found = setup.shape
    for kind, each in busy.items():
        found = _with(found, max(2, min(question.most, math.ceil(_PLENTY * each) + 2)), kind)
    return found


def _fewest(question: Question, shape: Shape, kind: str) -> int:
    """The smallest number of a kind that meets the targets beside the rest of `shape`."""
    low = 0
    high: int = getattr(shape, kind)
    while not question.tried(more := _with(shape, high, kind)):
        if high >= question.most:
            missed = "; ".join(question.asked(more).misses(question.target))
            raise PlanError(f"not even {high} {kind} are enough: {missed}")
        low, high = high, min(question.most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        enough = question.tried(_with(shape, middle, kind))
        low, high = (low, middle) if enough else (middle, high)
    return high


def gives_way(question: Question, shape: Shape) -> GivesWay:
    """What is short at the first load that misses a target, by trying larger fleets."""
    target = question.target

    def cured(kind: str) -> bool:
        more = _with(shape, 2 * getattr(shape, kind), kind)
        return question.asked(more, scale).distance(target) < 0.5 * answer.distance(target)

    for scale in _MORE:
        answer = question.asked(shape, scale)
        if misses := answer.misses(target):
            return GivesWay(scale, misses, [kind for kind in _KINDS if cured(kind)])
    return GivesWay(None, [], [])
