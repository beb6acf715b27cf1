"""A plan: the fleet, what it gives, what gives way first, and its values for the chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from antiphon_bench.plan.costs import Setup, Shape
from antiphon_bench.plan.search import (
    Answer,
    GivesWay,
    Question,
    Report,
    Target,
    gives_way,
    smallest,
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question. `met`: the fleet, which may have been given, meets the targets."""

    source: str
    fleet: dict[str, int]
    target: Target
    met: bool
    answer: Answer
    gives_way: GivesWay | None
    values: dict[str, Any]


def make(
    question: Question,
    *,
    model: str,
    given: Shape | None = None,
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
    return Plan(
        source=question.setup.curves.costs.source,
        fleet=shape.counted(),
        target=question.target,
        met=question.meets(found),
        answer=found,
        gives_way=None if once else gives_way(question, shape),
        values=chart_values(question.setup, shape, model),
    )


def chart_values(setup: Setup, shape: Shape, model: str) -> dict[str, Any]:
    """What differs from the chart's defaults. `model`: its name and its folder of weights."""
    talker, gateway, limits = setup.talker, setup.gateway, setup.vocoder_limits
    talking = {
        "slots": talker.slots,
        "batch_streams": talker.batch_streams,
        "batch_positions": talker.batch_positions,
    }
    vocoding = {
        "slots": setup.vocoder.slots,
        "batch_streams": limits.streams,
        "batch_frames": limits.frames,
        "step_frames": limits.stream_frames,
    }
    admitting = {
        "ttfp_target_s": gateway.ttfp_target_s,
        "utilisation": gateway.utilisation,
        "max_streams": gateway.max_streams,
    }
    served = {
        "name": model,
        "weights": {"path": model},
        "talker": {"replicas": shape.talkers, "settings": talking},
        "vocoder": {"replicas": shape.vocoders, "settings": vocoding},
    }
    return {
        "nats": {"replicas": shape.brokers},
        "gateway": {"replicas": shape.gateways, "settings": admitting},
        "models": [served],
    }


def as_json(made: Plan | dict[str, Any]) -> str:
    """All of it, for programs."""
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def write(plan: Plan, folder: Path) -> list[Path]:
    """plan.json, and values.yaml, which is JSON as well."""
    folder.mkdir(parents=True, exist_ok=True)
    record, values = folder / "plan.json", folder / "values.yaml"
    record.write_text(as_json(plan) + "\n")
    values.write_text(as_json(plan.values) + "\n")
    return [record, values]


def summary(plan: Plan) -> Iterator[tuple[str, str]]:
    """What it comes to, a line for each thing that a person wants to know."""
    found, target = plan.answer, plan.target
    yield "fleet", _listed(plan.fleet)
    yield "meets the targets", "yes" if plan.met else "; ".join(["no", *found.misses(target)])
    yield "load", f"{found.rate:.2f} requests/s, {found.sound_s_per_s:.0f} s of sound a second"
    yield (
        "first sound",
        f"p50 {_ms(found.ttfp_p50_s)}, p95 {_ms(found.ttfp_p95_s)}, "
        f"p99 {_ms(found.ttfp_p99_s)} (target: p95 {_ms(target.ttfp_p95_s)})",
    )
    viable = "-" if found.viable_share is None else f"{found.viable_share:.2%}"
    yield "streams without a gap", f"{viable} (target: {target.viable:.2%})"
    yield "refused", f"{found.refused_share:.2%} (target: at most {target.refused:.2%})"
    yield "busiest", ", ".join(f"{name} {share:.0%}" for name, share in found.busy.items())
    if plan.gives_way is not None:
        yield "gives way first", _gives_way(plan.gives_way)
    yield "curves", plan.source


def _gives_way(found: GivesWay) -> str:
    if found.scale is None:
        return "nothing, up to three times the load"
    what = " and ".join(found.relief) or "no single kind"
    return f"{what}, at {found.scale:g} times the load ({'; '.join(found.misses)})"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.0f} ms"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name if n == 1 else f'{name}s'}" for name, n in counts.items())
