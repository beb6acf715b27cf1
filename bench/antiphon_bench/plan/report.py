"""A plan: the fleet, what it gives, what gives way first, and its values for the chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from antiphon_bench.plan.costs import Setup, Shape
from antiphon_bench.plan.search import Answer, GivesWay, Question, Target, gives_way, smallest
from antiphon_bench.results import write_json


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question. `met`: the fleet, which may have been given, meets the targets."""

    source: str
    fleet: dict[str, int]
    target: Target
    met: bool
    answer: Answer
    gives_way: GivesWay | None
    values: dict[str, Any]


def make(question: Question, model: str, given: Shape | None = None, *, once: bool = False) -> Plan:
    """Look for the smallest fleet, or judge the `given` one; raises PlanError.

    `once`: at the load itself alone, without a look at what gives way.
    """
    shape = given or smallest(question)
    return Plan(
        source=question.setup.curves.costs.source,
        fleet=shape.counted(),
        target=question.target,
        met=question.tried(shape) if given else True,
        answer=question.asked(shape),
        gives_way=None if once else gives_way(question, shape),
        values=chart_values(question.setup, shape, model),
    )


def chart_values(setup: Setup, shape: Shape, model: str) -> dict[str, Any]:
    """What differs from the chart's defaults. `model`: its name and its folder of weights."""
    talker, gateway = setup.talker, setup.gateway
    limits = setup.vocoder.limits(setup.curves.costs.speech.frame_rate_hz)
    talking = {
        name: getattr(talker, name) for name in ("slots", "batch_streams", "batch_positions")
    }
    vocoding = {
        "slots": setup.vocoder.slots,
        "batch_streams": limits.streams,
        "batch_frames": limits.frames,
        "step_frames": limits.stream_frames,
    }
    admitting = {
        name: getattr(gateway, name) for name in ("ttfp_target_s", "utilisation", "max_streams")
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


def as_json(made: object) -> str:
    """All of it, for programs."""
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def write(plan: Plan, folder: Path) -> list[Path]:
    """plan.json, and values.yaml, which is JSON as well."""
    records = {folder / "plan.json": plan, folder / "values.yaml": plan.values}
    for path, record in records.items():
        write_json(path, record)
    return list(records)


def summary(plan: Plan) -> Iterator[tuple[str, str]]:
    """What it comes to, a line for each thing that a person wants to know."""
    found, target = plan.answer, plan.target
    fleet = [f"{n} {name if n == 1 else f'{name}s'}" for name, n in plan.fleet.items()]
    yield "fleet", ", ".join(fleet)
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
        more, told = plan.gives_way, "nothing, up to three times the load"
        if more.scale is not None:
            what, misses = " and ".join(more.relief) or "no single kind", "; ".join(more.misses)
            told = f"{what}, at {more.scale:g} times the load ({misses})"
        yield "gives way first", told
    yield "curves", plan.source


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.0f} ms"
