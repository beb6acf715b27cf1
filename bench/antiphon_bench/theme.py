"""Looks of plots: one set of colours for light pages, one for dark ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure


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
