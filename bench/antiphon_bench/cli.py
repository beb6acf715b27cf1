"""Commands: measure one load, look for the goodput, exceed it, draw what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import to_builtins
from pydantic import ValidationError
from rich.console import Console

from antiphon_bench import gallery, tables
from antiphon_bench.config import SweepConfig
from antiphon_bench.options import Options, with_options
from antiphon_bench.processes import processor
from antiphon_bench.results import Summary
from antiphon_bench.run import run as run_load
from antiphon_bench.sweep import in_turns
from antiphon_bench.sweep import overload as run_overload
from antiphon_bench.sweep import sweep as run_sweep
from ttsfamilies.base import synthetic

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a streaming speech server as its listeners hear it.",
)
app.command()(processor)
console = Console()
_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}

Rate = Annotated[float | None, typer.Option(help="Open loop: requests each second.")]
Concurrency = Annotated[int | None, typer.Option(help="Closed loop: users at once.")]
Rates = Annotated[str, typer.Option(help="Measure just these loads, as 1,2,4.")]


@app.command()
@with_options
def run(options: Options, rate: Rate = None, concurrency: Concurrency = None) -> None:
    """Measure one load."""
    try:
        config = options.run_config(options.arrivals(rate, concurrency))
    except ValidationError as error:
        raise typer.BadParameter(str(error)) from error
    with console.status(f"measuring for {config.warmup_s + config.duration_s:g} s"):
        summary = run_load(config)
    tables.show_run(console, summary)
    console.print(f"[dim]{gallery.build([config.out], config.out)}[/dim]")


@app.command()
@with_options
def sweep(
    options: Options,
    rates: Rates = "",
    start: Annotated[float, typer.Option(help="First load of the climb.")] = 1.0,
    factor: Annotated[float, typer.Option(help="Step of the climb.")] = 2.0,
    ceiling: Annotated[float, typer.Option(help="Highest load to try.")] = 1024.0,
    refine: Annotated[int, typer.Option(help="Bisections after the first failure.")] = 3,
    ttfp_p95: Annotated[float, typer.Option(help="Target for the p95 of TTFP (s).")] = 0.5,
    viable: Annotated[float, typer.Option(help="Target share of viable streams.")] = 0.999,
    settle: Annotated[float, typer.Option(help="Pause between two loads (s).")] = 2.0,
    closed: Annotated[bool, typer.Option("--closed", help="Loads are users, not rates.")] = False,
    against: Annotated[
        list[str] | None, typer.Option(help="Another server, measured in turns; repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measure each of --rates so often.")] = 1,
) -> None:
    """Find the goodput: the highest load that is prompt and without gaps.

    With --rates, and --against or --repeats, a table of each load at each server instead.
    """
    arrivals = options.arrivals(None if closed else 1.0, 1 if closed else None)
    try:
        config = SweepConfig(
            run=options.run_config(arrivals),
            rates=tuple(float(rate) for rate in rates.split(",") if rate),
            start=start,
            factor=factor,
            ceiling=ceiling,
            refine=refine,
            ttfp_p95_s=ttfp_p95,
            viable_share=viable,
            settle_s=settle,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error

    if against or repeats > 1:
        if not config.rates:
            raise typer.BadParameter("servers are compared at the loads of --rates")
        print(tables.TURNS_HEAD)
        for summary in in_turns(config, (options.url, *(against or ())), repeats):
            print(tables.turns_row(summary), flush=True)
        return

    def report(summary: Summary, passed: bool) -> None:
        console.print(tables.line(summary, passed))

    found = run_sweep(config, report=report)
    tables.show_sweep(console, found)
    console.print(f"[dim]{gallery.build([options.out], options.out)}[/dim]")


@app.command()
@with_options
def overload(
    options: Options,
    goodput: Annotated[
        float | None, typer.Option(help="Requests/s known to be goodput; else looked for.")
    ] = None,
    factor: Annotated[float, typer.Option(help="So many times the goodput.")] = 2.0,
    start: Annotated[float, typer.Option(help="First load of the search.")] = 1.0,
    settle: Annotated[float, typer.Option(help="Pause between two loads (s).")] = 3.0,
) -> None:
    """Compare the goodput rate with a multiple: accepted streams viable, the rest refused."""
    run_config = options.run_config(options.arrivals(1.0, None))
    search = SweepConfig(run=run_config, start=start, settle_s=settle)
    try:
        found = run_overload(search, goodput, factor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    tables.show_comparison(console, found)


@app.command()
@with_options
def costs(
    options: Options,
    curves: Annotated[Path, typer.Option(help="Folder of `antiphon calibrate`.")] = Path("curves"),
    voice_dir: Annotated[Path, typer.Option(help="The voice served.")] = Path("voices/vesper"),
) -> None:
    """Measure what a stack on this machine takes beside its engines' steps, for `antiphon plan`.

    Writes costs.json into the folder of the curves.
    """
    import os
    import platform

    from antiphon_bench.costs import measure, speech_of
    from antiphon_bench.plan import PlanError
    from antiphon_bench.processes import NotHere

    config, cores = options.run_config(options.arrivals(None, 1)), os.cpu_count() or 1
    source = f"{voice_dir.name} on {cores} cores ({platform.machine()}), antiphon bench costs"
    try:
        found = measure(config, curves, speech_of(voice_dir), source, cores)
    except (NotHere, PlanError) as error:
        raise typer.BadParameter(str(error)) from error
    console.print_json(data=to_builtins(found))


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs or sweeps.")],
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("bench-report"),
) -> None:
    """Draw what was measured; several sweeps side by side."""
    try:
        path = gallery.build(folders, out)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"no results there: {error.filename}") from error
    console.print(str(path))


@app.command()
def checkpoint(
    family: Annotated[str, typer.Argument(help=f"One of {', '.join(synthetic.names())}.")],
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Where it is written.")],
    size: Annotated[str, typer.Option(help="tiny, or a published one: 0.6b or 1.7b.")] = "",
    kind: Annotated[str, typer.Option(help="custom_voice, voice_design or base.")] = "",
    seed: Annotated[int, typer.Option(help="Of the weights.")] = 0,
) -> None:
    """Write a checkpoint with published names and shapes and drawn weights: it babbles."""
    try:
        typer.echo(synthetic.family(family).written(folder, size, kind, seed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def peers(context: typer.Context) -> None:
    """Piper, Pocket TTS, Kokoro and hibari-tts beside the same voices here."""
    if not Path("tests/parity").is_dir():
        raise typer.BadParameter("peers runs in a checkout of the repository")
    _run("tests.parity.side_by_side", context)


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def gpu(context: typer.Context) -> None:
    """All that is measured on a GPU; has subcommands."""
    _run("antiphon_bench.gpu", context)


def _run(module: str, context: typer.Context) -> None:
    """Run a program with options of its own, and end with its exit status."""
    command = [sys.executable, "-m", module, *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
