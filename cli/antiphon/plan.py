"""`antiphon plan`: how many talkers, vocoders and gateways a load needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from antiphon.printing import fail, needs_bench

if TYPE_CHECKING:
    from antiphon_bench.plan.costs import Shape
    from antiphon_bench.plan.search import Answer

_EXIT_MISSED: Final = 1
_EXIT_INPUT: Final = 2
_HELP: Final = """Say how many talkers, vocoders and gateways a load needs.

A deployment is simulated with the real scheduler, chunker and admission in it, from step times
that were measured: [bold]antiphon calibrate[/] and [bold]antiphon bench costs[/] write them.

  antiphon plan --curves curves --callers 500

  antiphon plan --curves curves --trace yesterday.csv --fleet 2,4,3

Exit status: 0 the fleet meets the targets, 1 it does not, 2 the input cannot be used.
"""


def plan(
    curves: Annotated[
        Path, typer.Option(help="Folder with talker.json, vocoder.json and costs.json.")
    ],
    callers: Annotated[
        int | None,
        typer.Option(min=1, help="People who each hear one text after another."),
    ] = None,
    pause: Annotated[
        float, typer.Option(min=0, help="With --callers: seconds between two texts of one.")
    ] = 4.0,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Or: requests a second.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Or: CSV with at_s,characters, or a bench's requests.jsonl."),
    ] = None,
    texts: Annotated[
        str, typer.Option(help="short, medium, long, mixed, or a file with one text a line.")
    ] = "mixed",
    cv: Annotated[
        float, typer.Option(min=0.1, max=10, help="Burstiness: 1 is Poisson, 3 comes in bursts.")
    ] = 1.0,
    seconds: Annotated[
        float, typer.Option(min=10, max=86_400, help="How long to simulate.")
    ] = 120.0,
    ttfp_p95: Annotated[
        float, typer.Option(min=0.001, help="Target: p95 of the first sound (s).")
    ] = 0.5,
    viable: Annotated[
        float, typer.Option(min=0, max=1, help="Target: share of streams without a gap.")
    ] = 0.99,
    refused: Annotated[
        float, typer.Option(min=0, max=1, help="Target: share of refusals, at most.")
    ] = 0.001,
    fleet: Annotated[
        str,
        typer.Option(
            help="Judge so many gateways, talkers, vocoders in place of looking for them."
        ),
    ] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Do not look at what gives way under more.")
    ] = False,
    brokers: Annotated[int, typer.Option(help="NATS servers: 1 or 3.")] = 1,
    nodes: Annotated[
        int, typer.Option(min=0, help="Machines that all is dealt out to; 0: as many as it takes.")
    ] = 0,
    cores: Annotated[float, typer.Option(min=0, help="Cores of each of the --nodes.")] = 0.0,
    slots: Annotated[
        int | None,
        typer.Option(min=1, max=8192, help="Streams of a talker; by default its own setting."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Streams of a talker's step; likewise.")
    ] = None,
    vocoder_slots: Annotated[
        int | None, typer.Option(min=1, max=8192, help="Streams of a vocoder; likewise.")
    ] = None,
    utilisation: Annotated[
        float, typer.Option(min=0.05, max=1, help="The gateways' setting of that name.")
    ] = 0.85,
    model: Annotated[str, typer.Option(help="Name in the chart's values.")] = "vesper",
    seed: Annotated[int, typer.Option(help="Of arrivals and texts.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for plan.json and values.yaml.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """See _HELP."""
    if bool(nodes) != bool(cores):
        raise typer.BadParameter("--nodes and --cores belong together")
    if brokers not in (1, 3):
        raise typer.BadParameter("--brokers is 1 or 3, as in the chart")
    if [callers, rate, trace].count(None) != 2:
        raise typer.BadParameter("say one of --callers, --rate and --trace")
    counts = _counts(fleet) if fleet else None
    try:
        from antiphon_bench.plan import PlanError, costs, loads, report, search
        from gateway.settings import GatewaySettings
        from talker.settings import TalkerSettings
        from vocoder.settings import VocoderSettings
    except ImportError as error:
        fail("plan", error, needs_bench())
    talking: dict[str, Any] = {"slots": slots, "batch_streams": batch}
    vocoding: dict[str, Any] = {"slots": vocoder_slots}
    try:
        measured = costs.read_curves(curves)
        device = "cpu" if measured.costs.computes else "cuda"
        setup = costs.Setup(
            measured,
            costs.Shape(brokers=brokers, nodes=nodes, cores=cores),
            GatewaySettings(ttfp_target_s=ttfp_p95, utilisation=utilisation),
            TalkerSettings(device=device, **{name: n for name, n in talking.items() if n}),
            VocoderSettings(device=device, **{name: n for name, n in vocoding.items() if n}),
        )
        if callers is not None:
            lengths, speech = loads.lengths_of(texts), setup.curves.costs.speech
            heard_s = speech.seconds_per_character * sum(lengths) / len(lengths)
            rate = callers / (heard_s + pause)
        warmup_s = min(20.0, seconds / 6) if trace is None else 0.0
        demand = loads.Demand(rate or 0.0, texts, cv, trace, seconds, warmup_s)
        given = None
        if counts is not None:
            gateways, talkers, vocoders = counts
            given = replace(setup.shape, gateways=gateways, talkers=talkers, vocoders=vocoders)
        target = search.Target(ttfp_p95, viable, refused)
        question = search.Question(setup, demand, target, seed, report=_tried)
        made = report.make(question, model, given, once=once)
    except PlanError as error:
        fail("plan", error, status=_EXIT_INPUT)
    written = report.write(made, out) if out is not None else []
    if json:
        typer.echo(report.as_json(made))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        for name, text in report.summary(made):
            table.add_row(f"[bold]{name}[/]", text)
        Console().print(table, highlight=False)
    for path in written:
        Console(stderr=True).print(f"[dim]{path}[/]", highlight=False)
    raise typer.Exit(0 if made.met else _EXIT_MISSED)


plan.__doc__ = _HELP


def _counts(fleet: str) -> tuple[int, int, int]:
    """Gateways, talkers and vocoders."""
    try:
        gateways, talkers, vocoders = (int(part) for part in fleet.split(","))
    except ValueError:
        raise typer.BadParameter("GATEWAYS,TALKERS,VOCODERS, as 2,4,3") from None
    if min(gateways, talkers, vocoders) < 1:
        raise typer.BadParameter("at least one of each")
    return gateways, talkers, vocoders


def _tried(shape: Shape, answer: Answer, met: bool) -> None:
    p95 = "-" if answer.ttfp_p95_s is None else f"{1e3 * answer.ttfp_p95_s:.0f} ms"
    Console(stderr=True).print(
        f"[dim]{shape.gateways} gateways, {shape.talkers} talkers, {shape.vocoders} vocoders:"
        f" p95 {p95}, viable {answer.viable_share or 0.0:.2%}, refused"
        f" {answer.refused_share:.2%}{'' if met else ': too few'}[/]",
        highlight=False,
    )
