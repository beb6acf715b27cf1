"""Errors in what the planner was given."""

from __future__ import annotations

from pathlib import Path


class PlanError(Exception):
    """The planner cannot use what it was given; the message says what and where."""


class BadInput(PlanError):
    """A file cannot be used."""

    what = "file"

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{self.what} {where}: {reason}")


class BadCurve(BadInput):
    """Step times that no calibration wrote."""

    what = "curve"


class BadCosts(BadInput):
    """Costs of the path that no measurement wrote."""

    what = "costs"


class BadTrace(BadInput):
    """Arrivals that cannot be read."""

    what = "trace"


class BadTexts(BadInput):
    """Texts that cannot be spoken."""

    what = "texts"


class BadPrices(BadInput):
    """A list of prices that cannot be used."""

    what = "prices"


class BadEvent(PlanError):
    """A loss, restart or addition that cannot happen."""


class NoFleet(PlanError):
    """No fleet within the bounds meets the targets."""
