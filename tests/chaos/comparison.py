"""Loads of the planner and of real stacks: a table of both sorts of runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from antiphon_bench.arrivals import closed_loop, open_loop
from antiphon_bench.config import Closed, Poisson, RunConfig, Target
from antiphon_bench.gpu.records import Point, Records
from antiphon_bench.plan.costs import Curves, Edge, Setup, Shape, read_curves
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.gateways import Call, Gateway
from antiphon_bench.plan.loads import ClosedLoop, OpenLoop, Wanted
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.search import Answer, measured
from tests.chaos.command import markdown

ROUNDS: Final = 5
LISTENERS: Final = (8, 24, 48, 64)
RATES: Final = (1.0, 3.0, 6.0)
WARMUP_S: Final = 3.0
MEASURED_S: Final = 12.0
FIGURES: Final = {
    "p50_s": "first sound, p50 (ms)",
    "p95_s": "first sound, p95 (ms)",
    "refused": "refused (%)",
    "gaps": "streams with a gap (%)",
}
_CORES: Final = 2
# What a share may differ by from five runs of some fifty requests each.
_ONE_IN: Final = 0.02


def stack_keys() -> Iterator[Point]:
    """Every load once before any of them a second time."""
    for number in range(ROUNDS):
        for listeners in LISTENERS:
            yield {"what": "listeners", "load": listeners, "round": number}
        for rate in RATES:
            yield {"what": "rate", "load": rate, "round": number}


def run_config(key: Point, url: str, out: Path) -> RunConfig:
    """A round is a seed."""
    listeners = key["what"] == "listeners"
    arrivals = Closed(concurrency=key["load"]) if listeners else Poisson(rate=key["load"])
    return RunConfig(
        target=Target(url=url, protocol="ws"),
        arrivals=arrivals,
        warmup_s=WARMUP_S,
        duration_s=MEASURED_S,
        drain_s=20.0,
        seed=key["round"],
        out=out / f"{key['what']}-{key['load']:g}-{key['round']}",
    )


class HeardHere(Fleet):
    """With the load generator on its first machine, of which requests and sound take some."""

    def __init__(self, setup: Setup, listeners: Edge) -> None:
        super().__init__(setup)
        self._listeners = listeners

    def _work(self, seconds: float) -> None:
        self.nodes[0].worked.add(seconds, self.kernel.now)

    def arrive(self, wanted: Wanted) -> None:
        self._work(self._listeners.refusal_s)
        super().arrive(wanted)

    def begin(self, call: Call, gateway: Gateway) -> None:
        self._work(self._listeners.request_s - self._listeners.refusal_s)
        super().begin(call, gateway)

    def play(self, call: Call, gateway: Gateway, samples: int) -> None:
        self._work(self._listeners.sound_s * self.seconds(samples / SAMPLES))
        super().play(call, gateway, samples)


def simulated(key: Point, out: Path, beside: float = 0.0) -> Point:
    """The same load in virtual time. `beside`: cores that other programs took in the run that it
    stands beside.
    """
    curves = read_curves(out / "curves")
    listeners = msgspec.json.decode((out / "curves" / "listeners.json").read_bytes(), type=Edge)
    found = _stack(key, curves, listeners, beside)
    return {
        **key,
        "p50_s": found.ttfp_p50_s,
        "p95_s": found.ttfp_p95_s,
        "offered": found.requests,
        "refused": found.refused_share,
        "gaps": 1.0 - (found.viable_share or 0.0),
    }


def _stack(key: Point, curves: Curves, listeners: Edge, beside: float) -> Answer:
    """One of each on one machine, with the load generator beside them."""
    config = run_config(key, "http://planned", Path())
    shape = Shape(nodes=1, cores=_CORES, beside=beside + listeners.idle)
    fleet = HeardHere(Setup(curves, shape), listeners)
    until_s = WARMUP_S + MEASURED_S
    return measured(fleet, _load(config, until_s), WARMUP_S, until_s, drain_s=60.0)


def _load(config: RunConfig, until_s: float) -> OpenLoop:
    """The bench's own texts, in its own order."""
    if isinstance(config.arrivals, Poisson):
        return OpenLoop([Wanted(job.at_s, len(job.text)) for job in open_loop(config)])
    assert isinstance(config.arrivals, Closed)
    characters = (len(job.text) for job in closed_loop(config))
    users = config.arrivals.concurrency
    return ClosedLoop(users, characters, until_s, config.warmup_s)


def draw(out: Path) -> None:
    """comparison.md and simulated.jsonl, from real.jsonl and the curves."""
    real = Records(out, "real").read()
    made = [simulated(_key(one), out, one.get("others", 0.0)) for one in real]
    (out / "simulated.jsonl").unlink(missing_ok=True)
    kept = Records(out, "simulated")
    for one in made:
        kept.add(one)
    text = table(real, made)
    (out / "comparison.md").write_text(text + "\n")
    print(text)


def _key(point: Point) -> Point:
    return {name: point[name] for name in ("what", "load", "round")}


def loads(points: Sequence[Point]) -> list[tuple[str, float]]:
    """Every load once, in order of appearance."""
    return list(dict.fromkeys((one["what"], one["load"]) for one in points))


def values(points: Sequence[Point], load: tuple[str, float], name: str) -> list[float]:
    """A figure of every run at a load; a run without any sound has none."""
    found = [one[name] for one in points if (one["what"], one["load"]) == load]
    return [value for value in found if value is not None]


def within(real: Sequence[float], made: Sequence[float], name: str) -> bool:
    """Whether the middle of the simulated runs lies in the spread of the real ones."""
    if not real or not made:
        return not real and not made
    room = _ONE_IN if name in ("refused", "gaps") else 0.0
    return min(real) - room <= median(made) <= max(real) + room


def table(real: Sequence[Point], made: Sequence[Point]) -> str:
    """Markdown: the real runs' range, the simulated runs' median, and whether it lies within."""
    head = ["load", "runs", "cores of others"]
    for title in FIGURES.values():
        head += [title, "simulated"]
    rows = []
    for load in loads(real):
        beside = [one.get("others", 0.0) for one in real if (one["what"], one["load"]) == load]
        cells = [_name(load), str(len(beside)), f"{max(beside):.2f}"]
        for name in FIGURES:
            ours, theirs = values(made, load, name), values(real, load, name)
            cells += [_range(theirs, name), _middle(ours, theirs, name)]
        rows.append(cells)
    return markdown(head, rows)


def _name(load: tuple[str, float]) -> str:
    what, size = load
    return f"{size:g} listeners" if what == "listeners" else f"{size:g} requests/s"


def _shown(value: float, name: str) -> float:
    return 100.0 * value if name in ("refused", "gaps") else 1e3 * value


def _range(found: Sequence[float], name: str) -> str:
    if not found:
        return "-"
    low, high = (_shown(value, name) for value in (min(found), max(found)))
    return f"{low:.0f} to {high:.0f}" if name.endswith("_s") else f"{low:.1f} to {high:.1f}"


def _middle(made: Sequence[float], real: Sequence[float], name: str) -> str:
    if not made:
        return "-"
    shown = _shown(median(made), name)
    text = f"{shown:.0f}" if name.endswith("_s") else f"{shown:.1f}"
    return text if within(real, made, name) else f"**{text}**"
