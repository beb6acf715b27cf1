"""`antiphon plan`: how many talkers, vocoders and gateways a load needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from antiphon.printing import NEEDS_BENCH, fail

if TYPE_CHECKING:
    from antiphon_bench.plan.loads import Demand
    from antiphon_bench.plan.search import Question

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
        str, typer.Option(help="Judge GATEWAYS,TALKERS,VOCODERS in place of looking for them.")
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
        int | None, typer.Option(min=1, help="Streams of a talker; by default its own setting.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Streams of a talker's step; likewise.")
    ] = None,
    kv_blocks: Annotated[
        int, typer.Option(min=0, help="Blocks of 16 positions in a talker's KV cache; 0: plenty.")
    ] = 0,
    prompt: Annotated[int, typer.Option(min=1, help="Positions of a prompt in that cache.")] = 128,
    vocoder_slots: Annotated[
        int | None, typer.Option(min=1, help="Streams of a vocoder; likewise.")
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
    given = {name: value for name, value in locals().items()}  # noqa: C416 -- a copy of them
    try:
        from antiphon_bench.plan import PlanError
    except ImportError as error:
        fail("plan", error, NEEDS_BENCH)
    try:
        met = _run(given)
    except PlanError as error:
        fail("plan", error, status=_EXIT_INPUT)
    raise typer.Exit(0 if met else _EXIT_MISSED)


plan.__doc__ = _HELP


def _run(given: dict[str, Any]) -> bool:
    """Make the plan, show it, and say whether the targets are met; raises PlanError."""
    from antiphon_bench.plan import report
    from antiphon_bench.plan.costs import Shape
    from antiphon_bench.plan.search import Answer

    question = _question(given)
    console = Console(stderr=True)

    def tried(shape: Shape, answer: Answer, met: bool) -> None:
        p95 = "-" if answer.ttfp_p95_s is None else f"{1e3 * answer.ttfp_p95_s:.0f} ms"
        console.print(
            f"[dim]{shape.gateways} gateways, {shape.talkers} talkers, {shape.vocoders} vocoders:"
            f" p95 {p95}, viable {answer.viable_share or 0.0:.2%}, refused"
            f" {answer.refused_share:.2%}{'' if met else ': too few'}[/]",
            highlight=False,
        )

    shape = _fleet(given["fleet"], question) if given["fleet"] else None
    made = report.make(
        question,
        model=given["model"],
        given=shape,
        once=given["once"],
        report=tried,
    )
    written = report.write(made, given["out"]) if given["out"] is not None else []
    if given["json"]:
        typer.echo(report.as_json(made))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        for name, text in report.summary(made):
            table.add_row(f"[bold]{name}[/]", text)
        Console().print(table, highlight=False)
    for path in written:
        console.print(f"[dim]{path}[/]", highlight=False)
    return made.met


def _question(given: dict[str, Any]) -> Question:
    from antiphon_bench.plan.costs import TALKER, VOCODER, GatewaySetup, Setup, Shape, read_curves
    from antiphon_bench.plan.search import Question, Target

    if bool(given["nodes"]) != bool(given["cores"]):
        raise typer.BadParameter("--nodes and --cores belong together")
    if given["brokers"] not in (1, 3):
        raise typer.BadParameter("--brokers is 1 or 3, as in the chart")
    talking = {
        "slots": given["slots"],
        "batch_streams": given["batch"],
        "kv_blocks": given["kv_blocks"],
    }
    vocoding = {"slots": given["vocoder_slots"]}
    setup = Setup(
        read_curves(given["curves"]),
        Shape(brokers=given["brokers"], nodes=given["nodes"], cores=given["cores"]),
        GatewaySetup(ttfp_target_s=given["ttfp_p95"], utilisation=given["utilisation"]),
        TALKER.model_copy(update={name: one for name, one in talking.items() if one}),
        VOCODER.model_copy(update={name: one for name, one in vocoding.items() if one}),
        given["prompt"],
    )
    target = Target(given["ttfp_p95"], given["viable"], given["refused"])
    return Question(setup, _demand(given, setup), target, given["seed"])


def _demand(given: dict[str, Any], setup: Any) -> Demand:
    from antiphon_bench.plan.loads import Demand, Source, lengths_of

    asked = [name for name in ("callers", "rate", "trace") if given[name] is not None]
    if len(asked) != 1:
        raise typer.BadParameter("say one of --callers, --rate and --trace")
    length_s = given["seconds"]
    warmup_s = min(20.0, length_s / 6)
    if given["trace"] is not None:
        return Demand(given["trace"], length_s=length_s, warmup_s=0.0)
    rate = given["rate"]
    if rate is None:
        lengths = lengths_of(given["texts"])
        speech = setup.curves.costs.speech
        heard_s = speech.seconds_per_character * sum(lengths) / len(lengths)
        rate = given["callers"] / (heard_s + given["pause"])
    return Demand(Source(rate, given["texts"], given["cv"]), length_s, warmup_s)


def _fleet(text: str, question: Question) -> Any:
    from dataclasses import replace

    try:
        gateways, talkers, vocoders = (int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter("GATEWAYS,TALKERS,VOCODERS, as 2,4,3") from None
    if min(gateways, talkers, vocoders) < 1:
        raise typer.BadParameter("at least one of each")
    shape = question.setup.shape
    return replace(shape, gateways=gateways, talkers=talkers, vocoders=vocoders)
