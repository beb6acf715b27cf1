"""Tables and plots of what the subcommands measured, in one page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from antiphon_bench.gpu.records import Point, Records

SUBCOMMANDS: Final = (
    *("bandwidth", "check", "profile-1", "profile-64", "step", "predictor", "codec", "engine"),
    *("open", "open-apart", "closed", "closed-apart", "bus", "host", "prefill", "all"),
)


def write(folder: Path) -> Path:
    """`folder/report.md`, with plots beside it; what was not measured says so."""
    parts = ["# GPU measurements\n"]
    speed = Records(folder, "bandwidth").read()
    for name in SUBCOMMANDS:
        points = Records(folder, name).read()
        parts.append(f"## {name}\n\n{_section(name, points, speed)}\n")
    steps = Records(folder, "step").read()
    # A machine that measures need not have what draws; the points can be drawn elsewhere.
    if steps and find_spec("matplotlib") is not None:
        _plot(steps, speed, folder / "step.png")
        parts.append("![step time by batch](step.png)\n")
    path = folder / "report.md"
    path.write_text("\n".join(parts))
    return path


def _section(name: str, points: Sequence[Point], speed: Sequence[Point]) -> str:
    if not points:
        return "Not measured."
    if name == "step" and speed:
        points = [with_floor(point, speed[-1]["bytes_per_s"]) for point in points]
    columns = list(dict.fromkeys(key for point in points for key in point))
    lines = [f"| {' | '.join(columns)} |", f"|{' ---: |' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(point.get(c)) for c in columns)} |" for point in points]
    return "\n".join(lines)


def with_floor(point: Point, bytes_per_s: float) -> Point:
    """A step's point with the seconds that reading its bytes takes, and how many times that."""
    floor_s = point["least_bytes"] / bytes_per_s
    return {**point, "floor_seconds": floor_s, "times_floor": point["seconds"] / floor_s}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(each)}" for key, each in value.items())
    return "" if value is None else str(value)


def _plot(points: Sequence[Point], speed: Sequence[Point], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    batches = [point["batch"] for point in points]
    axes.plot(batches, [1e3 * point["seconds"] for point in points], "o-", label="step")
    if speed:
        floors = [with_floor(point, speed[-1]["bytes_per_s"]) for point in points]
        axes.plot(batches, [1e3 * p["floor_seconds"] for p in floors], "--", label="floor")
    axes.set(xscale="log", xlabel="streams in a batch", ylabel="ms")
    axes.legend()
    figure.savefig(path, dpi=120)
