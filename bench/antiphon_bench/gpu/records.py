"""Measured points, kept one a line, and a page of Markdown with tables and plots of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

Point = dict[str, Any]


class Records:
    """The points of one subcommand in `folder/name.jsonl`."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.jsonl"

    def read(self) -> list[Point]:
        """All points so far; a line that a cut-off left half written does not count."""
        if not self.path.exists():
            return []
        return list(_whole(self.path.read_text().splitlines()))

    def missing(self, keys: Iterable[Point]) -> list[Point]:
        """Those of `keys` that no point has."""
        known = self.read()
        return [k for k in keys if not any(k.items() <= point.items() for point in known)]

    def add(self, point: Point) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(point) + "\n")

    def fill(
        self,
        keys: Iterable[Point],
        measure: Callable[[Point], Point],
        minutes: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        spent_s: float = 0.0,
        least_s: float = 0.0,
    ) -> bool:
        """Measure the points that are missing, until `minutes` are over; whether all are there.

        key: what tells a point from others; it is part of what is kept. No point is begun that
        would, at the pace of the slowest so far and of `least_s`, end too late. spent_s: of the
        minutes already.
        """
        began, slowest_s = clock() - spent_s, least_s
        for key in self.missing(keys):
            started = clock()
            if started - began + slowest_s > 60 * minutes:
                return False
            self.add({**key, **measure(key)})
            slowest_s = max(slowest_s, clock() - started)
        return True


def _whole(lines: Iterable[str]) -> Iterator[Point]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


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
