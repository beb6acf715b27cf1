"""The talker's scheduling policies under one load, in virtual time.

This is the talker's own engine, chunker and policies with a model whose steps take the time of a
curve, on the planner's core. Only the clock is not real, so a minute of load is a second's work and
the outcome depends on nothing but its seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from antiphon_bench.arrivals import ScheduledRequest, open_loop
from antiphon_bench.config import Gamma, Poisson, RunConfig, TextSet
from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.costs import Costs, Curves, Edge, Recovery, Speech, read_talker
from antiphon_bench.plan.kernel import Kernel, Node, Seat
from antiphon_bench.plan.pools import Pool
from antiphon_bench.plan.spoken import PlannedRequest
from antiphon_bench.plan.workers import TalkerSetup, TalkerWorker, Worker
from antiphon_bench.stats import percentile
from antiphon_bench.theme import THEMES, Theme, figure
from talker.engine.scheduler import PolicyName, StepLimits
from talker.engine.stream import ChunkReady
from ttscommon.sound.playback import PlaybackAccount
from ttsfamilies.fake.codec import Curve as VocoderCurve
from ttsfamilies.fake.talker import FRAME_RATE_HZ, FRAMES_PER_CHARACTER, Curve

COMPARED: Final[tuple[PolicyName, ...]] = ("online", "round_robin", "first_come")

_FREE: Final = Edge(0.0, 0.0)
# A talker alone: nothing but its engine takes time, and first chunks are of two frames.
_COSTS: Final = Costs(
    source="a talker alone",
    speech=Speech(FRAME_RATE_HZ, 0.064, 0.0, initial_s=0.08, regular_s=1.0, busy_growth=0.0),
    gateway=_FREE,
    broker=_FREE,
    talker=_FREE,
    vocoder=_FREE,
    hop_s=0.0,
    read_s=0.0,
    recovery=Recovery(0.0, {}, 0.0, 0.0, 0.0),
    computes=False,
)

# What a second costs grows with every stream, so that throughput saturates at 1 / stream_s.
SATURATING: Final = Curve(base_s=0.004, stream_s=0.002, prefill_s=0.002)


@dataclass(frozen=True)
class Load:
    """Open-loop arrivals: `warmup_s` unmeasured, then `duration_s` measured.

    Gaps vary by `cv`: 1 is Poisson, more comes in bursts.
    """

    rate: float
    cv: float = 1.0
    warmup_s: float = 20.0
    duration_s: float = 180.0
    texts: TextSet = "mixed"
    seed: int = 0

    def jobs(self) -> list[ScheduledRequest]:
        bursty = Gamma(rate=self.rate, cv=self.cv)
        return open_loop(
            RunConfig(
                arrivals=Poisson(rate=self.rate) if self.cv == 1.0 else bursty,
                texts=self.texts,
                warmup_s=self.warmup_s,
                duration_s=self.duration_s,
                seed=self.seed,
            )
        )


@dataclass(frozen=True)
class Talker:
    """The engine under test. Requests beyond `slots` wait in order, as they do on the bus.

    First chunks are of one size, whatever the load: it is the order that is compared.
    """

    curve: Curve = SATURATING
    limits: StepLimits = field(default_factory=StepLimits)
    slots: int = 256


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One policy at one rate, over all seeds.

    Times in seconds, shares 0..1 by VoxServe's equation 2.
    """

    policy: str
    rate: float
    requests: int
    ttfp_p50_s: float
    ttfp_p90_s: float
    ttfp_p99_s: float
    viable_chunk_share: float
    viable_stream_share: float
    underrun_s: float
    busy_share: float


@dataclass
class _Heard:
    """What the listener of one request gets."""

    job: ScheduledRequest
    # Counted in frames, not in samples.
    account: PlaybackAccount = field(default_factory=lambda: PlaybackAccount(round(FRAME_RATE_HZ)))

    @property
    def ttfp_s(self) -> float:
        first_s = self.account.first_at_s
        return math.inf if first_s is None else first_s - self.job.at_s


class Simulation:
    """One talker, one policy, one load. `run` returns when the last request has ended."""

    def __init__(self, talker: Talker, policy: PolicyName, load: Load) -> None:
        self._load = load
        self._kernel = Kernel()
        setup = TalkerSetup(talker.slots, talker.limits, policy=policy)
        curves = Curves(talker.curve, VocoderCurve(), _COSTS)
        seat = Seat("talker", Node(math.inf))
        self._worker = TalkerWorker(curves, setup, self._kernel, seat, self._listen)
        self._pool = Pool(self._open)
        self._pool.add(self._worker)
        self._heard = [_Heard(job) for job in load.jobs()]

    @property
    def measured(self) -> list[_Heard]:
        """Listeners who came after the warm-up."""
        return [h for h in self._heard if h.job.at_s >= self._load.warmup_s]

    @property
    def busy_share(self) -> float:
        return self._worker.busy_s / self._kernel.now

    def run(self) -> None:
        for heard in self._heard:
            call = Call(heard.job.index, heard.job.at_s, _frames(heard.job.text), heard.account)
            self._kernel.at(heard.job.at_s, partial(self._pool.submit, call))
        self._kernel.run()

    def _open(self, worker: Worker, call: Call) -> None:
        engine, prepared = self._worker.engine, PlannedRequest(call.request)
        worker.tell(lambda: engine.open(prepared, None, (call.frames,), final=True))

    def _listen(self, worker: Worker, key: str, event: object) -> None:
        engine = self._worker.engine
        if isinstance(event, ChunkReady):
            self._heard[int(key)].account.feed(len(event.arrays["codes"]), self._kernel.now)
            worker.tell(lambda: engine.acknowledge(key))
        else:
            self._pool.release(worker)


def _frames(text: str) -> int:
    return int(len(text.strip()) * FRAMES_PER_CHARACTER)


def measure(talker: Talker, policy: PolicyName, loads: Sequence[Load]) -> Point:
    """One policy under loads of one rate that differ in their seed; all requests count alike."""
    runs = [Simulation(talker, policy, load) for load in loads]
    for run in runs:
        run.run()
    heard = [h for run in runs for h in run.measured]
    accounts = [h.account for h in heard]
    ttfps = sorted(h.ttfp_s for h in heard)
    return Point(
        policy=policy,
        rate=loads[0].rate,
        requests=len(heard),
        ttfp_p50_s=percentile(ttfps, 0.5),
        ttfp_p90_s=percentile(ttfps, 0.9),
        ttfp_p99_s=percentile(ttfps, 0.99),
        viable_chunk_share=sum(a.viable_chunks for a in accounts) / sum(a.chunks for a in accounts),
        viable_stream_share=sum(a.viable for a in accounts) / len(accounts),
        underrun_s=math.fsum(a.underrun_s for a in accounts),
        busy_share=fmean(run.busy_share for run in runs),
    )


def compare(
    talker: Talker,
    rates: Sequence[float],
    policies: Sequence[PolicyName] = COMPARED,
    seeds: Sequence[int] = (0,),
    cv: float = 1.0,
) -> Iterator[Point]:
    """Every policy at every rate, with the same arrivals and texts for all policies."""
    for policy in policies:
        for rate in rates:
            yield measure(talker, policy, [Load(rate, cv, seed=seed) for seed in seeds])


def rate_at(
    points: Sequence[Point], policy: str, ttfp_p90_s: float, viable: float = 0.999
) -> float:
    """The highest rate at which `policy` keeps both targets, in proportion between two points.

    0 if it never does.
    """
    best = 0.0
    previous: Point | None = None
    for point in sorted((p for p in points if p.policy == policy), key=lambda p: p.rate):
        if point.viable_chunk_share < viable:
            break
        if point.ttfp_p90_s > ttfp_p90_s:
            if previous is not None:
                rise = point.ttfp_p90_s - previous.ttfp_p90_s
                share = (ttfp_p90_s - previous.ttfp_p90_s) / rise
                best = previous.rate + share * (point.rate - previous.rate)
            break
        best, previous = point.rate, point
    return best


def talker_of(curve: Path | None, batch: int) -> Talker:
    """A talker with a measured curve, or with the saturating one."""
    known = SATURATING
    if curve is not None:
        known = read_talker(curve)
    return Talker(known, StepLimits(streams=batch))


def write(points: Sequence[Point], title: str, out: Path) -> None:
    """points.json, and the plot for light and for dark pages."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "points.json").write_bytes(msgspec.json.format(msgspec.json.encode(list(points))))
    for theme in THEMES:
        plot(points, theme, title).savefig(out / f"policies-{theme.name}.svg")


def table(points: Sequence[Point], targets_s: Sequence[float]) -> str:
    """The rates that every policy sustains at each target, as Markdown."""
    policies = list(dict.fromkeys(point.policy for point in points))
    first, *others = policies
    head = [f"`{name}`" for name in policies] + [f"`{first}` / `{name}`" for name in others]
    lines = [f"| p90 TTFP | {' | '.join(head)} |", "| --- |" + " --- |" * len(head)]
    for target_s in targets_s:
        rates = [rate_at(points, name, target_s) for name in policies]
        cells = [f"{rate:.2f}" for rate in rates]
        cells += [f"{rates[0] / rate:.1f}" if rate else "-" for rate in rates[1:]]
        lines.append(f"| {target_s * 1e3:.0f} ms | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(points: Sequence[Point], theme: Theme, title: str) -> Figure:
    """p90 TTFP above, viable chunks below, against the rate (VoxServe, figure 7)."""
    with figure(theme, 8.0, 6.0) as fig:
        upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for policy, colour in zip(COMPARED, theme.series, strict=False):
            own = sorted((p for p in points if p.policy == policy), key=lambda p: p.rate)
            rates = [p.rate for p in own]
            label = policy.replace("_", " ")
            upper.plot(rates, [1e3 * p.ttfp_p90_s for p in own], "o-", color=colour, label=label)
            lower.plot(rates, [100 * p.viable_chunk_share for p in own], "o-", color=colour)
        upper.set_yscale("log")
        upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        upper.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
        upper.yaxis.set_minor_formatter(NullFormatter())
        upper.set_ylabel("p90 TTFP of the talker (ms)")
        upper.set_title(title)
        upper.legend()
        lower.set_ylabel("chunks in time (%)")
        lower.set_xlabel("requests a second")
        lower.set_ylim(-4, 104)
    return fig
