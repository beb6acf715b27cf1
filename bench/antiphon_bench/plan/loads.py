"""Requests to come: a trace of what was, a Poisson source, or users who ask again and again."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from antiphon_bench.config import TextSet
from antiphon_bench.plan import PlanError
from antiphon_bench.results import Outcome, read_lines
from antiphon_bench.texts import sentences

_MOST_CHARACTERS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to come: when, of how many characters, whose. `user`: of a closed loop."""

    at_s: float
    characters: int
    key_name: str = ""
    user: int = -1


class OpenLoop:
    """Requests come at their times, whatever became of those before."""

    def __init__(self, wanted: Iterable[Wanted]) -> None:
        self._wanted = wanted

    def first(self) -> Iterable[Wanted]:
        """What is known beforehand, in order."""
        return self._wanted

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        """What a user asks next, after one that was heard to its end at `heard_s`, failed then, or
        was refused, in which case its gateway said to come again after `retry_s`.
        """
        del wanted, heard_s, outcome, retry_s
        return None


class ClosedLoop(OpenLoop):
    """Users who each ask anew when they have heard the last text to its end."""

    def __init__(
        self,
        users: int,
        characters: Iterator[int],
        until_s: float,
        spread_s: float,
        retry_s: float | None = None,
    ) -> None:
        """`spread_s`: over which they begin. `retry_s`: until one who was refused asks again; None:
        as its gateway says.
        """
        first = (user * spread_s / users for user in range(users))
        super().__init__(
            Wanted(at_s, next(characters), user=user) for user, at_s in enumerate(first)
        )
        self._characters, self._until_s, self._retry_s = characters, until_s, retry_s

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        wait_s = retry_s if self._retry_s is None else self._retry_s
        at_s = heard_s + (0.0 if outcome == "ok" else wait_s)
        if at_s >= self._until_s:
            return None
        return Wanted(at_s, next(self._characters), user=wanted.user)


@dataclass(frozen=True)
class Source:
    """Independent requests. rate: a second. texts: a file with one a line, or a set of the bench.
    cv: variation of the gaps; 1 is Poisson, more comes in bursts.
    """

    rate: float
    texts: str = "mixed"
    cv: float = 1.0


def lengths_of(texts: str) -> list[int]:
    """Characters of each text of a bench's set, or of a file's lines; raises PlanError."""
    for name in get_args(TextSet):
        if name == texts:
            return [len(text) for text in sentences(name)]
    try:
        lines = Path(texts).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(get_args(TextSet))
        raise PlanError(f"{texts}: neither a file of UTF-8 text nor one of {known}") from error
    lengths = [len(line.strip()) for line in lines if line.strip()]
    if not lengths:
        raise PlanError(f"{texts}: there is no text in it")
    if max(lengths) > _MOST_CHARACTERS:
        raise PlanError(f"{texts}: a text of more than {_MOST_CHARACTERS:,} characters")
    return lengths


def poisson(source: Source, until_s: float, seed: int, *, scale: float = 1.0) -> Iterator[Wanted]:
    """What it asks for within `until_s`. `scale`: so many times the rate. Raises PlanError."""
    lengths, rng = lengths_of(source.texts), random.Random(f"plan {seed} 0")
    rate, shape = scale * source.rate, 1.0 / source.cv**2
    due = rng.gammavariate(shape, 1.0 / shape)
    while due <= rate * until_s:
        yield Wanted(due / rate, rng.choice(lengths))
        due += rng.gammavariate(shape, 1.0 / shape)


def trace(path: Path, scale: float = 1.0) -> list[Wanted]:
    """What was asked for: CSV with the columns `at_s` and `characters`, or a bench's
    requests.jsonl, in order. `scale`: so many times as fast. Raises PlanError.
    """
    try:
        if path.suffix == ".jsonl":
            found = [Wanted(one.scheduled_s, len(one.text)) for one in read_lines(path)]
        else:
            found = list(_csv_trace(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}") from error
    if not found:
        raise PlanError(f"{path}: there is no request in it")
    first_s = min(one.at_s for one in found)
    moved = [Wanted((one.at_s - first_s) / scale, one.characters) for one in found]
    return sorted(moved, key=lambda one: one.at_s)


def _csv_trace(path: Path) -> Iterator[Wanted]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if not {"at_s", "characters"} <= set(reader.fieldnames or ()):
            raise PlanError(f"{path}, line 1: it names the columns at_s and characters")
        for row in reader:
            yield _wanted(f"{path}, line {reader.line_num}", row)


def _wanted(where: str, row: dict[str, Any]) -> Wanted:
    try:
        one = Wanted(float(row["at_s"]), int(row["characters"]))
    except (TypeError, ValueError):
        raise PlanError(f"{where}: at_s is a number and characters a whole one") from None
    if not math.isfinite(one.at_s) or not 0 < one.characters <= _MOST_CHARACTERS:
        raise PlanError(f"{where}: a text has 1 to {_MOST_CHARACTERS:,} characters")
    return one


@dataclass(frozen=True)
class Demand:
    """A load that can be asked for more than once: at another scale, or with another seed.

    source: a rate of requests, or the file of a trace. warmup_s: of `length_s`, not counted.
    """

    source: Source | Path
    length_s: float = 120.0
    warmup_s: float = 20.0

    def wanted(self, seed: int, scale: float = 1.0) -> list[Wanted]:
        """Raises PlanError."""
        if isinstance(self.source, Path):
            return [one for one in trace(self.source, scale) if one.at_s < self.length_s]
        return list(poisson(self.source, self.length_s, seed, scale=scale))
