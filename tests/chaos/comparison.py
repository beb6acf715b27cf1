"""Real runs and simulated ones side by side: a table and a picture of `real.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final, TypeVar

import msgspec
from matplotlib.axes import Axes

from antiphon_bench.arrivals import closed_loop, open_loop
from antiphon_bench.config import Closed, Poisson, RunConfig
from antiphon_bench.gpu.records import Point, Records
from antiphon_bench.plan.answers import Answer, answer
from antiphon_bench.plan.calls import ClosedLoop, Load, OpenLoop, Outcome, Wanted
from antiphon_bench.plan.costs import Curves, Edge, Speech, read_curves
from antiphon_bench.plan.faults import Event, Faults
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.shapes import Setup, Shape
from antiphon_bench.theme import THEMES, Theme, figure
from tests.chaos import fleet as chaos
from tests.chaos.planned_loads import FLEET_KILL_S, FLEET_S, MEASURED_S, WARMUP_S, run_config
from ttsfamilies.fake.talker import FRAME_RATE_HZ, FRAMES_PER_CHARACTER

Made = TypeVar("Made", bound=msgspec.Struct)
FIGURES: Final = {
    "p50_s": "first sound, p50 (ms)",
    "p95_s": "first sound, p95 (ms)",
    "refused": "refused (%)",
    "gaps": "streams with a gap (%)",
}
_CORES: Final = 2
# By then all listeners of the fleet have heard what they asked for.
_PATIENCE_S: Final = 300.0
# What a share may differ by from five runs of some fifty requests each.
_ONE_IN: Final = 0.02


def simulated(key: Point, out: Path, real: Sequence[Point], beside: float = 0.0) -> Point:
    """The same load in virtual time; `real`: runs of the same kind. `beside`: cores that
    other programs took in the run that it stands beside.
    """
    curves = read_curves(out / "curves")
    listeners = msgspec.json.decode((out / "curves" / "listeners.json").read_bytes(), type=Edge)
    is_fleet = key["what"] == "fleet"
    found = _fleet(key, curves, real) if is_fleet else _stack(key, curves, listeners, beside)
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
    shape = Shape(nodes=1, cores=_CORES, listeners=listeners, beside=beside)
    fleet = Fleet(Setup(curves, shape))
    until_s = WARMUP_S + MEASURED_S
    heard = fleet.run(_load(config, until_s), until_s + 60.0)
    return answer(heard, fleet, WARMUP_S, until_s, {})


def _load(config: RunConfig, until_s: float) -> Load:
    """The bench's own texts, in its own order."""
    if isinstance(config.arrivals, Poisson):
        return OpenLoop([Wanted(job.at_s, len(job.text)) for job in open_loop(config)])
    assert isinstance(config.arrivals, Closed)
    characters = (len(job.text) for job in closed_loop(config))
    users = config.arrivals.concurrency
    return ClosedLoop(users, characters, until_s, config.warmup_s)


def _fleet(key: Point, curves: Curves, real: Sequence[Point]) -> Answer:
    """Fakes do not compute, so that engines take no cores; what all processes took is as in the
    first real run, and nothing else is taken from it.
    """
    setup = Setup(
        _fakes(curves, real[0]),
        Shape(
            gateways=4,
            talkers=10,
            vocoders=10,
            brokers=3,
            nodes=1,
            cores=_CORES,
            listeners=_edge("listeners", curves.costs.gateway, real[0]),
        ),
    )
    fleet = Fleet(setup)
    faults = Faults(fleet, key["round"])
    kinds = ("talker", "vocoder", "gateway", "broker")
    turn_s = FLEET_KILL_S * len(kinds)
    events = [Event(kind, FLEET_KILL_S * (i + 1), turn_s) for i, kind in enumerate(kinds)]
    faults.schedule(events, FLEET_S)
    load = _Listeners(key["load"], FLEET_S, key["round"])
    heard = fleet.run(load, _PATIENCE_S)
    # A refused listener asks until it is served, and all of that counts, as in the real runs.
    return answer(heard, fleet, 0.0, _PATIENCE_S, faults.lost)


def _fakes(curves: Curves, first: Point) -> Curves:
    costs = curves.costs
    # Without a model to load they start as a gateway does.
    start_s = costs.recovery.start_s
    starts = {**start_s, "talker": start_s["gateway"], "vocoder": start_s["gateway"]}
    named = {kind: getattr(costs, kind) for kind in ("gateway", "broker", "talker", "vocoder")}
    return Curves(
        _own_turns(msgspec.convert(chaos.TALKER_CURVE, type(curves.talker)), curves.talker.turn_s),
        _own_turns(
            msgspec.convert(chaos.VOCODER_CURVE, type(curves.vocoder)), curves.vocoder.turn_s
        ),
        msgspec.structs.replace(
            costs,
            source="fakes",
            speech=Speech(FRAME_RATE_HZ, FRAMES_PER_CHARACTER / FRAME_RATE_HZ, 0.022),
            read_s=0.0,
            reading=Edge(0.0, 0.0),
            slower={},
            recovery=msgspec.structs.replace(costs.recovery, start_s=starts),
            computes=False,
            **{kind: _edge(kind, edge, first) for kind, edge in named.items()},
        ),
    )


def _own_turns(curve: Made, turn_s: dict[int, float]) -> Made:
    """Fakes are turned by the same engines."""
    return msgspec.structs.replace(curve, turn_s=turn_s)


def _edge(kind: str, measured: Edge, first: Point) -> Edge:
    """A request costs what it does on the small stack; a second of sound all the rest."""
    # All of it was asked for, and nearly all made, while the cores were looked at.
    per_s = first["sound_s"] / FLEET_S
    requests = first["offered"] / FLEET_S
    cores = first["cores"][f"{kind}_cores"]
    request_s = min(measured.request_s, 0.5 * cores / requests)
    return Edge(request_s, (cores - requests * request_s) / per_s)


class _Listeners(ClosedLoop):
    """Those of the fleet: they begin within 15 s, each with dice of its own. One who was refused
    asks for the same text again when it was told to, as long as it takes.
    """

    def __init__(self, users: int, until_s: float, number: int) -> None:
        dice = Random(f"fleet {number}")
        self._lengths = [len(text) for text in chaos.TEXTS]
        self._begin = [dice.uniform(0, 15) for _ in range(users)]
        super().__init__(users, self._choices(dice), until_s, 15.0, 1.0)

    def _choices(self, dice: Random) -> Iterator[int]:
        while True:
            yield dice.choice(self._lengths)

    def first(self) -> Iterator[tuple[Wanted, int]]:
        for user, at_s in enumerate(self._begin):
            yield Wanted(at_s, next(self._characters)), user

    def next(
        self, user: int, characters: int, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        if outcome == "refused":
            return Wanted(heard_s + retry_s, characters)
        return super().next(user, characters, heard_s, outcome, retry_s)


def draw(out: Path) -> None:
    """comparison.md, simulated.jsonl and the pictures, from real.jsonl and the curves."""
    real = Records(out, "real").read()
    made = []
    for one in real:
        alike = [other for other in real if other["what"] == one["what"]]
        made.append(simulated(_key(one), out, alike, one.get("others", 0.0)))
    (out / "simulated.jsonl").unlink(missing_ok=True)
    kept = Records(out, "simulated")
    for one in made:
        kept.add(one)
    text = table(real, made)
    (out / "comparison.md").write_text(text + "\n")
    print(text)
    for theme in THEMES:
        picture(real, made, theme).savefig(out / f"planned-{theme.name}.svg")


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
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for load in loads(real):
        beside = [one.get("others", 0.0) for one in real if (one["what"], one["load"]) == load]
        cells = [_name(load), str(len(beside)), f"{max(beside):.2f}"]
        for name in FIGURES:
            ours, theirs = values(made, load, name), values(real, load, name)
            cells += [_range(theirs, name), _middle(ours, theirs, name)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _name(load: tuple[str, float]) -> str:
    what, size = load
    return {"listeners": f"{size:g} listeners", "rate": f"{size:g} requests/s"}.get(
        what, f"fleet, {size:g} listeners"
    )


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


def picture(real: Sequence[Point], made: Sequence[Point], theme: Theme) -> Any:
    """A panel for each figure; real runs as a bar of their spread, simulated ones beside it."""
    found = loads(real)
    with figure(theme, 9.6, 7.2) as fig:
        panels = fig.subplots(2, 2).flat
        for axes, (name, title) in zip(panels, FIGURES.items(), strict=True):
            _panel(axes, found, name, real, made, theme)
            axes.set_title(title)
        handles, labels = fig.axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper right", ncols=2)
    return fig


def _panel(
    axes: Axes,
    found: Sequence[tuple[str, float]],
    name: str,
    real: Sequence[Point],
    made: Sequence[Point],
    theme: Theme,
) -> None:
    for points, shift, colour, label in (
        (real, -0.14, theme.series[0], "real"),
        (made, 0.14, theme.series[1], "simulated"),
    ):
        for place, load in enumerate(found):
            shown = [_shown(value, name) for value in values(points, load, name)]
            if not shown:
                continue
            at = place + shift
            axes.plot([at, at], [min(shown), max(shown)], color=colour, lw=5, alpha=0.35)
            named = label if not place else None
            axes.plot([at] * len(shown), shown, "o", ms=4, color=colour, label=named)
    if name.endswith("_s"):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if _leads(value) else "")
    else:
        axes.set_ylim(-2, max(10.0, axes.get_ylim()[1]))
    axes.set_xticks(range(len(found)), [_short(load) for load in found], fontsize=8)


def _leads(value: float) -> bool:
    """Whether a logarithmic axis should name it."""
    return round(value / 10 ** math.floor(math.log10(value)), 6) in (2.0, 5.0)


def _short(load: tuple[str, float]) -> str:
    what, size = load
    return {"listeners": f"{size:g}\nat once", "rate": f"{size:g}/s"}.get(what, f"fleet\n{size:g}")
