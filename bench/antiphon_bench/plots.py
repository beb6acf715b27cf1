"""Pictures of runs and sweeps, for light pages and for dark ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from antiphon_bench.results import RequestResult, Summary, Sweep


@dataclass(frozen=True)
class Theme:
    """Colours of one kind of page."""

    name: str
    ground: str
    ink: str
    quiet: str
    grid: str
    good: str
    warn: str
    bad: str
    series: tuple[str, ...]


LIGHT = Theme(
    name="light",
    ground="#ffffff",
    ink="#1c1e21",
    quiet="#6b7076",
    grid="#e6e7ea",
    good="#0f766e",
    warn="#b45309",
    bad="#c2263e",
    series=("#0f766e", "#c2570c", "#5b4bb7", "#b0305c", "#4d7c0f", "#0369a1"),
)
DARK = Theme(
    name="dark",
    ground="#16181c",
    ink="#e8e9eb",
    quiet="#9aa0a8",
    grid="#2a2e34",
    good="#2dd4bf",
    warn="#fbbf24",
    bad="#fb7185",
    series=("#2dd4bf", "#fb923c", "#a99bf5", "#f472b6", "#a3e635", "#38bdf8"),
)
THEMES = (LIGHT, DARK)


def style(theme: Theme) -> dict[str, Any]:
    """matplotlib's rcParams for a theme."""
    return {
        "figure.facecolor": theme.ground,
        "savefig.facecolor": theme.ground,
        "axes.facecolor": theme.ground,
        "axes.edgecolor": theme.grid,
        "axes.labelcolor": theme.quiet,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 12,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 12,
        "axes.labelsize": 10,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=theme.series),
        "grid.color": theme.grid,
        "grid.linewidth": 0.8,
        "text.color": theme.ink,
        "xtick.color": theme.quiet,
        "ytick.color": theme.quiet,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 2.0,
        "lines.markersize": 5,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "svg.fonttype": "path",
        "figure.constrained_layout.use": True,
    }


@contextmanager
def figure(theme: Theme, width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the theme, free of pyplot's global state."""
    with mpl.rc_context(cast(Any, style(theme))):
        yield Figure(figsize=(width, height))


_MAX_LINES = 150  # more single streams than this are only ink


def latency_against_load(sweeps: Sequence[Sweep], theme: Theme, unit: str) -> Figure:
    """TTFP percentiles above, viability below, against the load.

    One sweep shows p50, p90 and p99; several are compared by their p90 (VoxServe, figure 7).
    """
    with figure(theme, 8.0, 6.4) as fig:
        upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        if len(sweeps) == 1:
            _percentile_lines(upper, sweeps[0], theme)
        else:
            for sweep, colour in zip(sweeps, _cycle(theme, len(sweeps)), strict=True):
                found = f"{sweep.goodput:.3g}" if sweep.goodput is not None else "none"
                _line(upper, sweep.points, "p90", colour, f"{sweep.label} (goodput {found})")
        target_s = sweeps[0].ttfp_p95_s
        upper.axhline(target_s * 1e3, color=theme.bad, lw=1, ls=(0, (4, 3)))
        upper.annotate(
            f"target p95 {target_s * 1e3:.0f} ms",
            (1.0, target_s * 1e3),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=theme.bad,
        )
        upper.set_yscale("log")
        upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        upper.yaxis.set_major_formatter(FuncFormatter(milliseconds))
        upper.yaxis.set_minor_formatter(NullFormatter())
        what = "TTFP" if len(sweeps) == 1 else "TTFP p90"
        upper.set_title(f"Time to the first sample ({what}) against load")
        upper.legend(loc="upper left")
        _viability_lines(lower, sweeps, theme)
        lower.set_xlabel(unit)
        _load_axis(lower, [p.rate for s in sweeps for p in s.points])
        _mark_goodput((upper, lower), sweeps, theme)
    return fig


def _percentile_lines(axes: Axes, sweep: Sweep, theme: Theme) -> None:
    shades = {"p50": theme.series[0], "p90": theme.series[1], "p99": theme.series[3]}
    for name, colour in shades.items():
        _line(axes, sweep.points, name, colour, name)


def _line(axes: Axes, points: Sequence[Summary], name: str, colour: str, label: str) -> None:
    known = [p for p in points if "ttfp_s" in p.quantiles]
    rates = [p.rate for p in known]
    values = [getattr(p.quantiles["ttfp_s"], name) * 1e3 for p in known]
    axes.plot(rates, values, marker="o", color=colour, label=label)


def _viability_lines(axes: Axes, sweeps: Sequence[Sweep], theme: Theme) -> None:
    for sweep, colour in zip(sweeps, _cycle(theme, len(sweeps)), strict=True):
        rates = [p.rate for p in sweep.points]
        streams = [100.0 * (p.viable_stream_share or 0.0) for p in sweep.points]
        served = [100.0 * (p.served_viable_share or 0.0) for p in sweep.points]
        alone = len(sweeps) == 1
        label = "viable, of accepted streams" if alone else sweep.label
        axes.plot(rates, streams, marker="o", color=colour, label=label)
        if served != streams:
            label = "viable, of all requests offered" if alone else "_of all requests offered"
            axes.plot(rates, served, marker=".", ls="--", lw=1.2, color=colour, label=label)
    axes.set_ylim(-3, 108)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0f} %"))
    solid = "" if len(sweeps) == 1 else " (dashed: of all requests offered)"
    axes.set_title("Streams without a gap (VoxServe eq. 2)" + solid)
    if len(sweeps) == 1:
        axes.legend(loc="lower left")


def _mark_goodput(panels: Sequence[Axes], sweeps: Sequence[Sweep], theme: Theme) -> None:
    for sweep, colour in zip(sweeps, _cycle(theme, len(sweeps)), strict=True):
        if sweep.goodput is None:
            continue
        for axes in panels:
            axes.axvline(sweep.goodput, color=colour, lw=1, ls=":")
        if len(sweeps) == 1:
            panels[1].annotate(
                f"goodput {sweep.goodput:.3g}",
                (sweep.goodput, 0.5),
                xycoords=("data", "axes fraction"),
                xytext=(-6, 0),
                textcoords="offset points",
                ha="right",
                fontsize=9,
                color=colour,
            )


def slack_over_time(results: Sequence[RequestResult], theme: Theme) -> Figure:
    """Slack of every chunk as it arrives, against the time since its stream's first."""
    streams = [_slack_points(r) for r in results if r.measured and len(r.trace_s) > 1]
    with figure(theme, 6.6, 3.9) as fig:
        axes = fig.subplots()
        axes.set_title("Slack: what the listener still has when a chunk arrives")
        axes.set_xlabel("seconds since the first sample")
        axes.set_ylabel("slack (s)")
        if streams:
            step = max(1, len(streams) // _MAX_LINES)
            lines = LineCollection(
                streams[::step], colors=theme.series[0], linewidths=0.7, alpha=0.22
            )
            axes.add_collection(lines)
            _slack_bands(axes, np.concatenate(streams), theme)
            axes.autoscale_view()
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, -0.06 * (top - bottom)), top)
        axes.axhspan(axes.get_ylim()[0], 0.0, color=theme.bad, alpha=0.12, lw=0)
        axes.axhline(0.0, color=theme.bad, lw=1.2)
        axes.annotate(
            "below: the listener hears a gap",
            (0.99, 0.0),
            xycoords=("axes fraction", "data"),
            xytext=(0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            color=theme.bad,
        )
    return fig


def _slack_points(result: RequestResult) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[chunks - 1, 2]: time since the first chunk (s), slack on arrival (s)."""
    at_s = np.asarray(result.trace_s[1:]) - result.trace_s[0]
    before_s = np.cumsum(result.trace_samples)[:-1] / float(result.sample_rate or 1)
    return np.column_stack([at_s, before_s - at_s])


def _slack_bands(
    axes: Axes, points: np.ndarray[tuple[int, int], np.dtype[np.float64]], theme: Theme
) -> None:
    order = points[np.argsort(points[:, 0])]
    groups = [g for g in np.array_split(order, min(24, max(1, len(order) // 8))) if len(g)]
    middle = [float(np.median(g[:, 0])) for g in groups]
    for share, colour, label in ((50, theme.ink, "median"), (1, theme.warn, "lowest 1 %")):
        levels = [float(np.percentile(g[:, 1], share)) for g in groups]
        axes.plot(middle, levels, color=colour, lw=1.8, label=label)
    axes.legend(loc="upper left")


def distributions(results: Sequence[RequestResult], theme: Theme) -> Figure:
    """Cumulative distributions of TTFB, TTFP and audible TTFA."""
    names = {"ttfb_s": "TTFB (first byte)", "ttfp_s": "TTFP (first sample)"}
    names["ttfa_s"] = "audible TTFA (first above −50 dBFS)"
    done = [r for r in results if r.measured and r.outcome == "ok"]
    with figure(theme, 6.6, 3.9) as fig:
        axes = fig.subplots()
        for (name, label), colour in zip(names.items(), theme.series, strict=False):
            values = sorted(1e3 * v for r in done if (v := getattr(r, name)) is not None)
            if values:
                shares = np.arange(1, len(values) + 1) * 100.0 / len(values)
                axes.step(values, shares, where="post", color=colour, label=label)
        axes.set_title("How long a listener waits")
        axes.set_xlabel("milliseconds since the request")
        axes.set_ylabel("of streams")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 102)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0f} %"))
        axes.xaxis.set_major_locator(MaxNLocator(8))
        if done:
            axes.legend(loc="lower right")
    return fig


def timeline(results: Sequence[RequestResult], theme: Theme) -> Figure:
    """Every request at its start: when its first sample came, or how it failed."""
    kinds = {
        "viable": (theme.good, "o", [r for r in results if r.outcome == "ok" and r.viable]),
        "heard a gap": (theme.warn, "D", [r for r in results if r.ttfp_s and not r.viable]),
        "refused": (theme.quiet, "x", [r for r in results if r.outcome == "refused"]),
        "failed": (theme.bad, "X", [r for r in results if r.outcome == "error"]),
    }
    with figure(theme, 9.6, 3.4) as fig:
        axes = fig.subplots()
        for label, (colour, marker, members) in kinds.items():
            if members:
                at = [r.started_s for r in members]
                waited = [1e3 * (r.ttfp_s or r.e2e_s) for r in members]
                name = f"{label} ({len(members)})"
                axes.scatter(at, waited, s=14, marker=marker, color=colour, alpha=0.75, label=name)
        warm = [r.started_s for r in results if not r.measured]
        first = min((r.started_s for r in results if r.measured), default=0.0)
        if any(at < first for at in warm):
            axes.axvspan(0, first, color=theme.grid, alpha=0.6, lw=0, label="warm-up")
        axes.set_title("Every request: when it came, and how long until its first sample")
        axes.set_xlabel("seconds into the run")
        axes.set_ylabel("ms to the first sample (or the end)")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        if results:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def _load_axis(axes: Axes, rates: Sequence[float]) -> None:
    if len(rates) > 1 and max(rates) / min(rates) >= 8:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _cycle(theme: Theme, count: int) -> list[str]:
    return [theme.series[i % len(theme.series)] for i in range(count)]


def milliseconds(value: float, _: int | None = None) -> str:
    """As an axis says it."""
    return f"{value / 1e3:g} s" if value >= 1e3 else f"{value:g} ms"
