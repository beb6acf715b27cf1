"""One self-contained HTML page for a run, a sweep, or several side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape
from matplotlib.figure import Figure

from antiphon_bench import plots
from antiphon_bench.plots import THEMES, Theme
from antiphon_bench.results import (
    RequestResult,
    Summary,
    Sweep,
    read_lines,
    read_summary,
    read_sweep,
)
from antiphon_bench.tables import in_words, percent


@dataclass(frozen=True)
class Loaded:
    """What a results folder holds: a sweep, or a single run with its requests."""

    folder: Path
    sweep: Sweep | None
    runs: list[tuple[Summary, Path]]

    @property
    def label(self) -> str:
        """The name the results were measured under."""
        return self.sweep.label if self.sweep else self.runs[0][0].label


@dataclass(frozen=True)
class Picture:
    """One plot in both themes, as data URIs."""

    name: str
    caption: str
    wide: bool
    light: str
    dark: str


def load(folder: Path) -> Loaded:
    """Reads a results folder; FileNotFoundError when it holds neither a run nor a sweep."""
    if (folder / "sweep.json").exists():
        paths = sorted(folder.glob("load-*/summary.json"))
        runs = sorted(((read_summary(p), p.parent) for p in paths), key=lambda run: run[0].rate)
        return Loaded(folder, read_sweep(folder / "sweep.json"), runs)
    return Loaded(folder, None, [(read_summary(folder / "summary.json"), folder)])


def build(folders: list[Path], out: Path) -> Path:
    """Draws everything in `folders`, writes the plots as SVG beside one index.html; its path."""
    loaded = [load(folder) for folder in folders]
    out.mkdir(parents=True, exist_ok=True)
    pictures = [_picture(name, caption, draw, out) for name, caption, draw in _drawings(loaded)]
    environment = Environment(
        loader=PackageLoader("antiphon_bench", "."), autoescape=select_autoescape()
    )
    environment.filters["ms"] = _ms
    environment.filters["percent"] = percent
    environment.filters["in_words"] = in_words
    runs = [run for results in loaded for run, _ in results.runs]
    page = environment.get_template("gallery.html").render(
        title=" · ".join(dict.fromkeys(results.label for results in loaded)),
        sweeps=[results.sweep for results in loaded if results.sweep],
        best=_shown(loaded[0])[0],
        runs=runs,
        several=len({run.label for run in runs}) > 1,
        pictures=pictures,
        sounds=_sounds(loaded, out),
    )
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


_WIDE_IN = 7.0

_Draw = Callable[[Theme], Figure]


def _drawings(loaded: list[Loaded]) -> list[tuple[str, str, _Draw]]:
    sweeps = [results.sweep for results in loaded if results.sweep]
    drawings: list[tuple[str, str, _Draw]] = []
    if sweeps:
        unit = _unit(sweeps[0])
        caption = "Each point is one run; the dotted line is the goodput."
        drawings.append(
            ("load", caption, lambda theme: plots.latency_against_load(sweeps, theme, unit))
        )
    for number, results in enumerate(loaded):
        run, folder = _shown(results)
        lines = read_lines(folder / "requests.jsonl")
        drawings += _run_drawings(f"{number}", f"{run.label}, {run.arrivals}", lines)
    return drawings


def _run_drawings(
    suffix: str, caption: str, lines: list[RequestResult]
) -> list[tuple[str, str, _Draw]]:
    return [
        (f"slack-{suffix}", caption, lambda theme: plots.slack_over_time(lines, theme)),
        (f"waits-{suffix}", caption, lambda theme: plots.distributions(lines, theme)),
        (f"timeline-{suffix}", caption, lambda theme: plots.timeline(lines, theme)),
    ]


def _shown(results: Loaded) -> tuple[Summary, Path]:
    """The run to show in detail: the one at the goodput, else the first."""
    if results.sweep and results.sweep.goodput is not None:
        for run, folder in results.runs:
            if run.rate == results.sweep.goodput:
                return run, folder
    return results.runs[0]


def _unit(sweep: Sweep) -> str:
    closed = sweep.points[0].arrivals.startswith("closed")
    return "concurrent users" if closed else "requests offered each second"


def _picture(name: str, caption: str, draw: _Draw, out: Path) -> Picture:
    uris = {}
    for theme in THEMES:
        drawn = draw(theme)
        buffer = io.BytesIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        (out / f"{name}-{theme.name}.svg").write_bytes(buffer.getvalue())
        encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
        uris[theme.name] = f"data:image/svg+xml;base64,{encoded}"
    wide = drawn.get_figwidth() > _WIDE_IN
    return Picture(name=name, caption=caption, wide=wide, light=uris["light"], dark=uris["dark"])


def _sounds(loaded: list[Loaded], out: Path) -> list[tuple[str, str]]:
    """(text, path from the page) of the first few recordings, if any were kept."""
    sounds = []
    for results in loaded:
        _, folder = _shown(results)
        texts = {r.index: r.text for r in read_lines(folder / "requests.jsonl")}
        for path in sorted((folder / "wav").glob("*.wav"))[:6]:
            target = path.resolve()
            try:
                place = target.relative_to(out.resolve()).as_posix()
            except ValueError:
                place = target.as_uri()
            sounds.append((texts.get(int(path.stem), path.stem), place))
    return sounds


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1e3:,.0f} ms" if abs(value) < 10 else f"{value:,.1f} s"
