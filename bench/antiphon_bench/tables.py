"""Results in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from antiphon_bench.results import Quantiles, Summary, Sweep
from antiphon_bench.sweep import Comparison

_ROWS = {
    "connect_s": "connect",
    "ttfb_s": "TTFB",
    "ttfp_s": "TTFP",
    "ttfa_s": "audible TTFA",
    "e2e_s": "end to end",
    "min_slack_s": "least slack",
    "refused_s": "refused within",
    "rtf": "RTF",
}


def show_run(console: Console, summary: Summary) -> None:
    """Prints one run."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for head in ("p50", "p90", "p95", "p99", "max", "n"):
        table.add_column(head, justify="right")
    for name, label in _ROWS.items():
        if (q := summary.quantiles.get(name)) is not None:
            table.add_row(label, *_cells(q, plain=name == "rtf", low=name == "min_slack_s"))
    if summary.server:
        table.add_row("[dim]at the server[/dim]")
    for name, q in summary.server.items():
        table.add_row(f"[dim]  {in_words(name)}[/dim]", *_cells(q, plain=False))
    console.print(f"[bold]{summary.label}[/bold]  {summary.arrivals}  [dim]{summary.url}[/dim]\n")
    console.print(table)
    console.print(
        f"\n{summary.offered} offered, {summary.ok} ok, {summary.refused} refused, "
        f"{summary.failed} failed   "
        f"viable: streams {percent(summary.viable_stream_share)}, "
        f"chunks {percent(summary.viable_chunk_share)}"
    )
    console.print(
        f"{summary.audio_s_per_s:.1f} audio-s/s, {summary.mean_streams:.1f} streams on average, "
        f"{summary.peak_streams} at most, {summary.peak_listeners} listeners at most"
    )
    for kind, count in summary.errors.items():
        console.print(f"[red]{count:5d}[/red] {kind}")
    health = summary.generator
    colour = "dim" if health.trustworthy else "bold red"
    console.print(
        f"[{colour}]generator: {health.cpu_share:.0%} of a core, loop lag p99 "
        f"{health.loop_lag_p99_s * 1e3:.1f} ms, dispatch lag p99 "
        f"{health.dispatch_lag_p99_s * 1e3:.1f} ms[/{colour}]"
    )
    if not health.trustworthy:
        console.print("[bold red]the generator was late: do not believe these figures[/bold red]")


def in_words(name: str) -> str:
    """A duration that a server tells, without the unit of its name: it is shown in another."""
    return name.removesuffix("_s").replace("_", " ")


def line(summary: Summary, passed: bool) -> str:
    """One point of a sweep while it runs."""
    ttfp = summary.quantiles.get("ttfp_s")
    waits = f"{ttfp.p50 * 1e3:7.0f} {ttfp.p95 * 1e3:7.0f} ms" if ttfp else " no audio at all "
    mark = "[green]met[/green]" if passed else "[red]not met[/red]"
    late = "" if summary.generator.trustworthy else "  [bold red]generator late[/bold red]"
    return (
        f"{summary.rate:9.3g}  TTFP p50, p95 {waits}  viable "
        f"{percent(summary.served_viable_share):>8}  {summary.audio_s_per_s:7.1f} audio-s/s  "
        f"{mark}{late}"
    )


_TURNS = (
    *("load", "address", "accepted", "refused", "failed", "first packet p50, p95"),
    *("without a gap", "least slack", "sound a second"),
)
TURNS_HEAD = f"| {' | '.join(_TURNS)} |\n| ---: | --- |{' ---: |' * (len(_TURNS) - 2)}"


def turns_row(summary: Summary) -> str:
    """One of several measurements, as a row of Markdown below TURNS_HEAD."""
    ttfp, slack = (summary.quantiles.get(name) for name in ("ttfp_s", "min_slack_s"))
    p50, p95, _ = _tail(ttfp)
    late = "" if summary.generator.trustworthy else " (the generator was late)"
    cells = (
        f"{summary.rate:g}",
        f"{summary.label}{late}",
        *map(str, (summary.ok, summary.refused, summary.failed)),
        f"{_ms(p50)}, {_ms(p95)}",
        percent(summary.viable_stream_share),
        _ms(slack.min if slack else None),
        f"{summary.audio_s_per_s:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def show_sweep(console: Console, sweep: Sweep) -> None:
    """Prints what a sweep found."""
    found = f"{sweep.goodput:.3g}" if sweep.goodput is not None else "none of these loads"
    console.print(
        f"\n[bold]goodput: {found}[/bold]  [dim](p95 TTFP <= {sweep.ttfp_p95_s * 1e3:.0f} ms, "
        f"viable >= {sweep.viable_share:.1%} of requests)[/dim]"
    )


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Prints runs side by side and what they had to show."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head in (
        *("", "load", "ok", "refused", "failed", "TTFP p50", "p95", "p99"),
        *("viable", "refused p50", "p95", "p99", "audio-s/s"),
    ):
        table.add_column(head, justify="right" if head else "left")
    for label, summary in comparison.runs.items():
        waits, noes = (summary.quantiles.get(name) for name in ("ttfp_s", "refused_s"))
        table.add_row(
            *(label, f"{summary.rate:.3g}", str(summary.ok), str(summary.refused)),
            str(summary.failed),
            *(_ms(value) for value in _tail(waits)),
            percent(summary.viable_stream_share),
            *(_ms(value) for value in _tail(noes)),
            f"{summary.audio_s_per_s:.1f}",
        )
    console.print(f"[bold]{comparison.title}[/bold]\n")
    console.print(table)
    console.print()
    for check in comparison.checks:
        value = "nothing measured" if check.value is None else f"{check.value:.4g}"
        mark = "[green]met[/green]" if check.met else "[red]not met[/red]"
        console.print(
            f"{mark}  {check.what}: {value} ({'<=' if check.at_most else '>='} {check.limit:g})"
        )
    for label, summary in comparison.runs.items():
        if not summary.generator.trustworthy:
            console.print(f"[bold red]{label}: the generator was late[/bold red]")


def _tail(q: Quantiles | None) -> list[float | None]:
    return [q.p50, q.p95, q.p99] if q else [None] * 3


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.0f} ms"


def _cells(q: Quantiles, *, plain: bool, low: bool = False) -> list[str]:
    def cell(value: float) -> str:
        return f"{value:.3f}" if plain else f"{value * 1e3:.1f} ms"

    # Of slack the low end matters: its columns read p50, p10, ... and the minimum last.
    values = [q.p50, q.p90, q.p95, q.p99, q.max]
    if low:
        return [cell(q.p50), f"p10 {cell(q.p10)}", "", "", f"min {cell(q.min)}", str(q.count)]
    return [*map(cell, values), str(q.count)]


def percent(value: float | None) -> str:
    """A share; 99.96 % is not 100 %: a figure at the edge keeps its digits."""
    if value is None:
        return "–"
    return "100 %" if value == 1 else f"{min(value * 100, 99.99):.2f} %"
