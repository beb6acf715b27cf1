"""Requests and their times: a trace of what was, or Poisson sources whose rates follow the day."""

from __future__ import annotations

import csv
import math
import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import msgspec

from antiphon_bench.config import TextSet
from antiphon_bench.plan.calls import Wanted
from antiphon_bench.plan.errors import BadTexts, BadTrace
from antiphon_bench.results import read_lines
from antiphon_bench.texts import sentences

_HOUR_S: Final = 3600.0
_BIN_S: Final = 10.0
_MOST_CHARACTERS: Final = 100_000

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Independent requests. rate: a second, in the mean of the day. texts: a file with one a line,
    or a set of the bench. cv: variation of the gaps; 1 is Poisson, more comes in bursts. day: 24
    numbers, how busy each hour is beside the others; none: all alike.
    """

    rate: Positive
    texts: str = "mixed"
    cv: Positive = 1.0
    day: tuple[Annotated[float, msgspec.Meta(ge=0)], ...] = ()

    def __post_init__(self) -> None:
        if self.day and (len(self.day) != 24 or not sum(self.day)):
            raise ValueError("a day has 24 hours, and some of them are busy")

    def rate_at(self, clock_s: float) -> float:
        """Requests a second at a time of the day, linear between the middles of its hours."""
        if not self.day:
            return self.rate
        place = clock_s / _HOUR_S - 0.5
        low = math.floor(place)
        before, behind = self.day[low % 24], self.day[(low + 1) % 24]
        busy = before + (behind - before) * (place - low)
        return self.rate * busy * 24.0 / sum(self.day)

    @property
    def peak_s(self) -> float:
        """The middle of the busiest hour, in seconds of the day."""
        return (max(range(24), key=self.day.__getitem__) + 0.5) * _HOUR_S if self.day else 0.0


def sources_of(path: Path) -> tuple[Source, ...]:
    """A load's sources, from TOML with a table `[[source]]` for each; raises BadTrace."""
    try:
        raw = tomllib.loads(path.read_text())
        found = msgspec.convert(raw, dict[str, list[Source]])
        if found.keys() != {"source"} or not found["source"]:
            raise ValueError("a load has tables [[source]] and nothing else")
    except OSError as error:
        raise BadTrace(path, error.strerror or "it cannot be read") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadTrace(path, str(error)) from error
    return tuple(found["source"])


def lengths_of(texts: str, folder: Path = Path()) -> list[int]:
    """Characters of each text of a bench's set, or of a file's lines; raises BadTexts."""
    if texts in get_args(TextSet):
        return [
            len(text) for name in get_args(TextSet) if name == texts for text in sentences(name)
        ]
    path = folder / texts
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(get_args(TextSet))
        raise BadTexts(path, f"neither a file of UTF-8 text nor one of {known}") from error
    lengths = [len(line.strip()) for line in lines if line.strip()]
    if not lengths:
        raise BadTexts(path, "there is no text in it")
    if max(lengths) > _MOST_CHARACTERS:
        raise BadTexts(path, f"a text of more than {_MOST_CHARACTERS:,} characters")
    return lengths


def poisson(
    sources: Sequence[Source],
    until_s: float,
    seed: int,
    *,
    scale: float = 1.0,
    begin_s: float | None = None,
    folder: Path = Path(),
) -> list[Wanted]:
    """What all sources ask for within `until_s`, in order.

    `scale`: so many times the rates. `begin_s`: the time of the day at the beginning; by default
    the busiest hour of the first source is in the middle. Raises BadTexts.
    """
    begin_s = sources[0].peak_s - until_s / 2 if begin_s is None else begin_s
    wanted = [
        one
        for number, source in enumerate(sources)
        for one in _of_source(source, until_s, f"{seed} {number}", scale, begin_s, folder)
    ]
    return sorted(wanted, key=lambda one: one.at_s)


def _of_source(
    source: Source, until_s: float, seed: str, scale: float, begin_s: float, folder: Path
) -> Iterator[Wanted]:
    lengths, rng = lengths_of(source.texts, folder), random.Random(f"plan {seed}")
    shape = 1.0 / source.cv**2
    due, passed, at_s = rng.gammavariate(shape, 1.0 / shape), 0.0, 0.0
    while at_s < until_s:
        step_s = min(_BIN_S, until_s - at_s)
        rate = scale * source.rate_at(begin_s + at_s + step_s / 2)
        while rate and due <= passed + rate * step_s:
            yield Wanted(at_s + (due - passed) / rate, rng.choice(lengths))
            due += rng.gammavariate(shape, 1.0 / shape)
        passed += rate * step_s
        at_s += step_s


def trace(path: Path, scale: float = 1.0) -> list[Wanted]:
    """What was asked for: CSV with the columns `at_s` and `characters`, or a bench's
    requests.jsonl, in order. `scale`: so many times as fast. Raises BadTrace.
    """
    try:
        found = _bench_trace(path) if path.suffix == ".jsonl" else list(_csv_trace(path))
    except OSError as error:
        raise BadTrace(path, error.strerror or "it cannot be read") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadTrace(path, str(error)) from error
    if not found:
        raise BadTrace(path, "there is no request in it")
    first_s = min(one.at_s for one in found)
    moved = [Wanted((one.at_s - first_s) / scale, one.characters) for one in found]
    return sorted(moved, key=lambda one: one.at_s)


def _bench_trace(path: Path) -> list[Wanted]:
    return [Wanted(one.scheduled_s, len(one.text)) for one in read_lines(path)]


def _csv_trace(path: Path) -> Iterator[Wanted]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if not {"at_s", "characters"} <= set(reader.fieldnames or ()):
            raise BadTrace(path, "the first line names the columns at_s and characters", line=1)
        for row in reader:
            yield _wanted(path, row, reader.line_num)


def _wanted(path: Path, row: dict[str, Any], line: int) -> Wanted:
    try:
        one = Wanted(float(row["at_s"]), int(row["characters"]))
    except (TypeError, ValueError):
        raise BadTrace(path, "at_s is a number and characters a whole one", line) from None
    if not math.isfinite(one.at_s) or not 0 < one.characters <= _MOST_CHARACTERS:
        raise BadTrace(path, f"a text has 1 to {_MOST_CHARACTERS:,} characters", line)
    return one


@dataclass(frozen=True)
class Demand:
    """A load that can be asked for more than once: at another scale, or with another seed.

    warmup_s: of `length_s`, not counted.
    """

    sources: tuple[Source, ...] = ()
    traced: Path | None = None
    folder: Path = Path()
    length_s: float = 120.0
    warmup_s: float = 20.0

    def wanted(self, seed: int, scale: float = 1.0) -> list[Wanted]:
        """Raises BadTrace or BadTexts."""
        if self.traced is not None:
            return [one for one in trace(self.traced, scale) if one.at_s < self.length_s]
        return poisson(self.sources, self.length_s, seed, scale=scale, folder=self.folder)
