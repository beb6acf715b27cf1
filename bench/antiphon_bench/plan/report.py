"""A plan: the fleet, what it gives, what gives way first and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from antiphon_bench.plan.answers import Answer, Target
from antiphon_bench.plan.pictures import against_load
from antiphon_bench.plan.prices import Bill, Prices, bill, counted
from antiphon_bench.plan.search import (
    GivesWay,
    Point,
    Question,
    Report,
    gives_way,
    smallest,
    under_load,
)
from antiphon_bench.plan.shapes import Shape
from antiphon_bench.plan.values import as_yaml, chart_values
from antiphon_bench.theme import THEMES


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question. `met`: the fleet, which may have been given, meets the targets."""

    source: str
    fleet: dict[str, int]
    target: Target
    met: bool
    answer: Answer
    points: list[Point]
    gives_way: GivesWay | None
    bill: Bill | None
    values: dict[str, Any]


def make(
    question: Question,
    *,
    model: str,
    given: Shape | None = None,
    prices: Prices | None = None,
    once: bool = False,
    report: Report = lambda shape, answer, met: None,
) -> Plan:
    """Look for the smallest fleet, or judge the `given` one; raises PlanError.

    `once`: at the load itself alone, without a look at what gives way.
    """
    if given is None:
        shape, found = smallest(question, report)
    else:
        shape, found = given, question.asked(given)
        report(shape, found, question.meets(found))
    points = [Point(1.0, found)] if once else under_load(question, shape, found)
    return Plan(
        source=question.setup.curves.costs.source,
        fleet=dict(counted(shape)),
        target=question.target,
        met=question.meets(found),
        answer=found,
        points=points,
        gives_way=None if once else gives_way(question, shape, points),
        bill=None if prices is None else bill(prices, shape),
        values=chart_values(question.setup, shape, model),
    )


def write(plan: Plan, folder: Path) -> list[Path]:
    """plan.json, values.yaml, and the plot for light and for dark pages."""
    folder.mkdir(parents=True, exist_ok=True)
    record, values = folder / "plan.json", folder / "values.yaml"
    record.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    values.write_text(as_yaml(plan.values))
    plots = []
    for theme in THEMES:
        plots.append(folder / f"plan-{theme.name}.svg")
        against_load(plan.points, plan.target, theme).savefig(plots[-1])
    return [record, values, *plots]


def summary(plan: Plan) -> list[tuple[str, str]]:
    """What it comes to, a line for each thing that a person wants to know."""
    return list(_lines(plan))


def _lines(plan: Plan) -> Iterator[tuple[str, str]]:
    found, target = plan.answer, plan.target
    yield "fleet", ", ".join(f"{n} {_plural(role, n)}" for role, n in plan.fleet.items())
    yield "meets the targets", "yes" if plan.met else "; ".join(["no", *found.misses(target)])
    yield "load", f"{found.rate:.2f} requests/s, {found.sound_s_per_s:.0f} s of sound a second"
    yield (
        "first sound",
        f"p50 {_ms(found.ttfp_p50_s)}, p95 {_ms(found.ttfp_p95_s)}, "
        + (f"p99 {_ms(found.ttfp_p99_s)} (target: p95 {_ms(target.ttfp_p95_s)})"),
    )
    viable = "-" if found.viable_share is None else f"{found.viable_share:.2%}"
    yield "streams without a gap", f"{viable} (target: {target.viable:.2%})"
    yield "refused", f"{found.refused_share:.2%} (target: at most {target.refused:.2%})"
    yield "busiest", ", ".join(f"{name} {share:.0%}" for name, share in found.busy.items())
    if found.lost:
        lost = ", ".join(f"{n} {_plural(kind, n)}" for kind, n in found.lost.items())
        yield "lost meanwhile", f"{lost}; longest silence {found.longest_underrun_s:.2f} s"
    if plan.gives_way is not None:
        yield "gives way first", _gives_way(plan.gives_way)
    if plan.bill is not None:
        machines = ", ".join(f"{n} x {name}" for name, n in plan.bill.machines.items() if n)
        yield "costs a month", f"{plan.bill.monthly:,.2f} {plan.bill.currency} ({machines})"
    yield "curves", plan.source


def _gives_way(found: GivesWay) -> str:
    if found.scale is None:
        return "nothing, up to three times the load"
    what = " and ".join(found.relief) or "no single kind"
    return f"{what}, at {found.scale:g} times the load ({'; '.join(found.misses)})"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.0f} ms"


def _plural(name: str, count: int) -> str:
    return name if count == 1 else f"{name}s"
