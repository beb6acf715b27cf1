"""Measured points, kept one a line, so that a subcommand goes on where it was cut off."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

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
