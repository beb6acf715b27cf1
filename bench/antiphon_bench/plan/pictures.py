"""Pictures of a plan. Each takes a theme and returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from antiphon_bench.plan.answers import Target
from antiphon_bench.plan.search import Point
from antiphon_bench.theme import Theme, figure


def against_load(points: Sequence[Point], target: Target, theme: Theme) -> Figure:
    """First sound above, shares below, against the load; 1 is what was asked for."""
    rates = [point.answer.rate for point in points]
    with figure(theme, 8.0, 6.0) as fig:
        upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        names = ("ttfp_p50_s", "ttfp_p95_s", "ttfp_p99_s")
        for name, colour in zip(names, (theme.series[0], *theme.series[1:3]), strict=True):
            times = [_ms(getattr(point.answer, name)) for point in points]
            upper.plot(rates, times, "o-", color=colour, label=name.split("_")[1])
        upper.axhline(1e3 * target.ttfp_p95_s, color=theme.bad, lw=1, ls=(0, (4, 3)))
        upper.annotate(
            "target of p95",
            (1.0, 1e3 * target.ttfp_p95_s),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=theme.bad,
        )
        upper.set_ylim(bottom=0)
        upper.set_ylabel("first sound (ms)")
        upper.set_title("The planned fleet under less and more than its load")
        upper.legend(loc="center left")
        viable = [100.0 * (point.answer.viable_share or 0.0) for point in points]
        refused = [100.0 * point.answer.refused_share for point in points]
        lower.plot(rates, viable, "o-", color=theme.good, label="streams without a gap")
        lower.plot(rates, refused, "o-", color=theme.warn, label="refused")
        lower.set_ylim(-4, 104)
        lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        lower.set_xlabel("requests a second")
        lower.legend(loc="center left")
        for axes in (upper, lower):
            for point in points:
                if point.scale == 1.0:
                    axes.axvline(point.answer.rate, color=theme.quiet, lw=1, ls=":")
        _name_load(upper, points, theme)
    return fig


def _name_load(axes: Axes, points: Sequence[Point], theme: Theme) -> None:
    """Say which of the loads was asked for."""
    for point in points:
        if point.scale == 1.0:
            axes.annotate(
                "the load asked for",
                (point.answer.rate, 0.5),
                xycoords=("data", "axes fraction"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                rotation=90,
                fontsize=8,
                color=theme.quiet,
            )


def _ms(seconds: float | None) -> float:
    return float("nan") if seconds is None else 1e3 * seconds
