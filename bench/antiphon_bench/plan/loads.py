"""Requests to come: a trace of what was, a Poisson source, or users who ask again and again."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, get_args

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

    def __init__(self, first: Iterable[Wanted]) -> None:
        """`first`: what is known beforehand."""
        self.first = first

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        """What a user asks next, after one that was heard to its end at `heard_s`, failed then, or
        was refused, in which case its gateway said to come again after `retry_s`.
        """
        return None


class ClosedLoop(OpenLoop):
    """Users who each ask anew when they have heard the last text to its end."""

    def __init__(
        self, users: int, characters: Iterator[int], until_s: float, spread_s: float
    ) -> None:
        """`spread_s`: over which they begin."""
        first = (user * spread_s / users for user in range(users))
        super().__init__(
            Wanted(at_s, next(characters), user=user) for user, at_s in enumerate(first)
        )
        self._characters, self._until_s = characters, until_s

    def next(
        self, wanted: Wanted, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        at_s = heard_s + (0.0 if outcome == "ok" else retry_s)
        if at_s >= self._until_s:
            return None
        return Wanted(at_s, next(self._characters), user=wanted.user)


@dataclass(frozen=True)
class Demand:
    """A load that can be asked for more than once: at another scale, or with another seed.

    rate: independent requests a second. texts: a file with one a line, or a set of the bench. cv:
    variation of the gaps; 1 is Poisson, more comes in bursts. calls: the file of a trace, in place
    of these. warmup_s: of `length_s`, not counted.
    """

    rate: float = 0.0
    texts: str = "mixed"
    cv: float = 1.0
    calls: Path | None = None
    length_s: float = 120.0
    warmup_s: float = 20.0

    def wanted(self, seed: int, scale: float = 1.0) -> list[Wanted]:
        """`scale`: so many times the rate. Raises PlanError."""
        if self.calls is not None:
            return [one for one in trace(self.calls, scale) if one.at_s < self.length_s]
        lengths, rng = lengths_of(self.texts), random.Random(f"plan {seed} 0")
        rate, shape = scale * self.rate, 1.0 / self.cv**2
        due, found = rng.gammavariate(shape, 1.0 / shape), []
        while due <= rate * self.length_s:
            found.append(Wanted(due / rate, rng.choice(lengths)))
            due += rng.gammavariate(shape, 1.0 / shape)
        return found


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


class _Call(msgspec.Struct):
    """A line of a trace."""

    at_s: Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
    characters: Annotated[int, msgspec.Meta(ge=1, le=_MOST_CHARACTERS)]


def trace(path: Path, scale: float = 1.0) -> list[Wanted]:
    """What was asked for: CSV with the columns `at_s` and `characters`, or a bench's
    requests.jsonl, in order. `scale`: so many times as fast. Raises PlanError.
    """
    try:
        if path.suffix == ".jsonl":
            found = [(one.scheduled_s, len(one.text)) for one in read_lines(path)]
        else:
            found = list(_rows(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}") from error
    if not found:
        raise PlanError(f"{path}: there is no request in it")
    found.sort(key=lambda one: one[0])
    return [Wanted((at_s - found[0][0]) / scale, characters) for at_s, characters in found]


def _rows(path: Path) -> Iterator[tuple[float, int]]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file, restkey="more", skipinitialspace=True)
        for row in reader:
            try:
                one = msgspec.convert(row, _Call, strict=False)
            except msgspec.ValidationError as error:
                raise PlanError(f"{path}, line {reader.line_num}: {error}") from None
            yield one.at_s, one.characters
