"""Commands: measure one load, look for the goodput, draw what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins
from pydantic import ValidationError
from rich.console import Console

from antiphon_bench import gallery, programs, scenarios, tables
from antiphon_bench.checkpoint import checkpoint
from antiphon_bench.config import Protocol, RunConfig, SweepConfig, TextSet
from antiphon_bench.options import Options, with_options
from antiphon_bench.results import Summary
from antiphon_bench.run import run as run_load
from antiphon_bench.selftest import self_test as run_self_test
from antiphon_bench.sweep import sweep as run_sweep
from antiphon_bench.texts import sentences

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a streaming speech server as its listeners hear it.",
)
app.command()(checkpoint)
programs.register(app)
console = Console()

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
) -> None:
    """Find the goodput: the highest load that is prompt and without gaps."""
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
        found = scenarios.overload(search, goodput, factor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    tables.show_comparison(console, found)


@app.command()
@with_options
def flood(
    options: Options,
    flood_key: Annotated[str, typer.Option(help="API key of the flood; yours is --api-key.")],
    rate: Annotated[float, typer.Option(help="Your requests each second.")] = 0.5,
    flood_rate: Annotated[float, typer.Option(help="The flood's.")] = 100.0,
) -> None:
    """Measure one key's load alone, and beside another key that floods."""
    config = options.run_config(options.arrivals(rate, None))
    tables.show_comparison(console, scenarios.flood(config, flood_key, flood_rate))


@app.command()
@with_options
def queue(
    options: Options,
    against: Annotated[str, typer.Option(help="Base address of the other deployment.")],
    requests: Annotated[int, typer.Option(help="Texts queued at once.")] = 200,
) -> None:
    """Compare two deployments, online (--url) and offline, at the same queue of texts.

    Both need room for a queue: admission off, many streams, a long wait for the first sound.
    """
    config = options.run_config(options.arrivals(1.0, None))
    urls = {"online": options.url, "offline": against}
    tables.show_comparison(console, scenarios.queues(config, urls, requests))


@app.command("capacity")
@with_options
def find_capacity(
    options: Options,
    listeners: Annotated[str, typer.Option(help="Loads to try in turn.")] = "100,200,300,400,500",
) -> None:
    """Find how many listeners a stack on this machine carries, and what gives way first."""
    from antiphon_bench.capacity import capacity
    from antiphon_bench.processes import NotHere

    config = options.run_config(options.arrivals(None, 1))
    console.print(tables.CAPACITY_HEAD)
    try:
        counts = [int(count) for count in listeners.split(",")]
        found = capacity(config, counts, report=lambda p: console.print(tables.load(p)))
    except (ValueError, NotHere) as error:
        raise typer.BadParameter(str(error)) from error
    tables.show_capacity(console, found)


@app.command("self-test")
def self_test(
    streams: Annotated[int, typer.Option(help="Realtime streams at once.")] = 300,
    protocol: Annotated[Protocol, typer.Option(help="http or ws.")] = "ws",
    duration: Annotated[float, typer.Option(help="Measured (s).")] = 10.0,
    processes: Annotated[int, typer.Option(help="Generator processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench-self-test"),
) -> None:
    """Measure the generator itself against a server that only keeps time."""
    config = RunConfig(
        warmup_s=5.0, duration_s=duration, processes=processes, label="self-test", out=out
    )
    tables.show_run(console, run_self_test(config, streams, protocol))


@app.command()
def policies(
    rates: Annotated[str, typer.Option(help="Requests a second.")] = "1,2,3,4",
    batch: Annotated[int, typer.Option(help="Streams that one step may hold.")] = 8,
    curve: Annotated[Path | None, typer.Option(help="A talker's, by `calibrate`.")] = None,
    targets: Annotated[str, typer.Option(help="p90 of TTFP to compare at (ms).")] = "50,100,500",
    seeds: Annotated[str, typer.Option(help="Of arrivals and texts; one run each.")] = "0",
    cv: Annotated[float, typer.Option(help="Variation of gaps: 1 Poisson, more bursts.")] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder for figures.")] = Path("bench-policies"),
) -> None:
    """Compare the talker's scheduling policies in virtual time."""
    try:
        from antiphon_bench import policies as simulation
    except ImportError as error:
        hint = "needs the talker package (`pip install ./services/talker`)"
        raise typer.BadParameter(hint) from error
    talker = simulation.talker_of(curve, batch)
    points = []
    load = [float(rate) for rate in rates.split(",")]
    chosen = [int(seed) for seed in seeds.split(",")]
    for point in simulation.compare(talker, load, seeds=chosen, cv=cv):
        points.append(point)
        console.print(
            f"{point.policy:<12} {point.rate:6.2f}/s  p90 {point.ttfp_p90_s * 1e3:8.1f} ms  "
            f"chunks in time {point.viable_chunk_share:.2%}"
        )
    arrivals = "Poisson arrivals" if cv == 1.0 else f"bursts (cv {cv:g})"
    simulation.write(points, f"Steps of at most {batch} streams, {arrivals}", out)
    print(simulation.table(points, [float(target) / 1e3 for target in targets.split(",")]))


@app.command()
def turns(
    streams: Annotated[str, typer.Option(help="Open at once, in turn.")] = "1,16,64,256",
    count: Annotated[int, typer.Option(help="Turns measured.")] = 400,
    depth: Annotated[int, typer.Option(help="Launches in flight behind the host.")] = 1,
) -> None:
    """Measure the talker's host time a turn, without any computing."""
    try:
        from antiphon_bench import turns as host
    except ImportError as error:
        hint = "needs the talker package (`pip install ./services/talker`)"
        raise typer.BadParameter(hint) from error
    for number in streams.split(","):
        took = host.measure(int(number), count, depth=depth)
        p50_ms, p95_ms = took.p50_s * 1e3, took.p95_s * 1e3
        print(f"{took.streams:5} streams  p50 {p50_ms:6.3f} ms  p95 {p95_ms:6.3f} ms")


@app.command()
def drafts(
    voice: Annotated[Path, typer.Argument(help="A voice's folder.")],
    streams: Annotated[str, typer.Option(help="At once, in turn.")] = "1,4,8,16,24",
    widths: Annotated[str, typer.Option(help="Frames a step tries; 0: as it pays.")] = "1,2,4,0",
    texts: Annotated[TextSet, typer.Option(help="Kind of texts.")] = "short",
    requests: Annotated[int, typer.Option(help="Of each stream, one after another.")] = 3,
    rounds: Annotated[int, typer.Option(help="Of each; medians count.")] = 3,
) -> None:
    """Compare plain steps with steps that draft frames: frames a second of processor time."""
    try:
        from antiphon_bench.drafts import cases_of, compare
    except ImportError as error:
        hint = "needs the talker package (`pip install ./services/talker`)"
        raise typer.BadParameter(hint) from error
    cases = cases_of(voice, _numbers(widths))
    said = sentences(texts)
    for found in compare(cases, _numbers(streams), texts=said, requests=requests, rounds=rounds):
        print(
            f"{found.streams:4} streams  {found.case:<20} {found.frames_per_s:8.1f} frames/s  "
            f"gained {found.gained:5.2f}  {found.frames}"
        )


@app.command()
def prefixes(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint that clones voices.")],
    voices: Annotated[int, typer.Option(help="Recordings.")] = 10,
    requests: Annotated[int, typer.Option(help="Of each.")] = 100,
    blocks: Annotated[int, typer.Option(help="Of the KV cache, 16 positions each.")] = 1024,
    at_once: Annotated[int, typer.Option(help="Requests at a time.")] = 4,
) -> None:
    """Compare prompts that are computed each time with shared ones: positions, first sound."""
    try:
        from antiphon_bench.prefixes import compare
    except ImportError as error:
        hint = "needs the talker package (`pip install ./services/talker`)"
        raise typer.BadParameter(hint) from error
    for found in compare(checkpoint, voices, requests, blocks, at_once):
        print(
            f"{'shared' if found.shared else 'apart':<7} {found.requests} requests "
            f"{found.positions:8} positions  first chunk p50 {found.first_p50_s * 1e3:7.1f} ms  "
            f"p95 {found.first_p95_s * 1e3:7.1f} ms"
        )


@app.command()
def adapters(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint that takes adapters.")],
    streams: Annotated[int, typer.Option(help="In one batch.")] = 8,
    frames: Annotated[int, typer.Option(help="Of each stream.")] = 24,
    rank: Annotated[int, typer.Option(help="Of each adapter, on every module.")] = 16,
    rounds: Annotated[int, typer.Option(help="The best of so many counts.")] = 3,
) -> None:
    """Measure frames a second of a batch with 0, 1, 4 and 8 low-rank adapters."""
    try:
        from antiphon_bench.adapters import compare
    except ImportError as error:
        hint = "needs the talker package (`pip install ./services/talker`)"
        raise typer.BadParameter(hint) from error
    for found in compare(checkpoint, streams, frames, rank, rounds):
        named = "off" if found.adapters is None else str(found.adapters)
        print(f"{named:>3} adapters  {found.streams} streams  {found.frames_per_s:8.2f} frames/s")


def _numbers(listed: str) -> list[int]:
    return [int(number) for number in listed.split(",")]


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

    from antiphon_bench.plan.errors import PlanError
    from antiphon_bench.plan.measuring import measure, speech_of
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
